#include "algorithms/rails.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {

int Neighbourhood::carrier(int g, int index) const {
  const std::vector<int>& group = grouping.groups[g];
  return group[index % static_cast<int>(group.size())];
}

std::vector<Neighbourhood::Rail> Neighbourhood::rails() const {
  std::vector<Rail> mine;
  for (int index = local.me; index < grouping.largest(); index += local.size()) {
    Rail rail{index, {}};
    for (int g = 0; g < static_cast<int>(grouping.groups.size()); ++g) rail.positions.push_back(carrier(g, index));
    mine.push_back(std::move(rail));
  }
  return mine;
}

std::vector<int> Neighbourhood::sameIndex(const std::vector<int>& members) const {
  std::vector<int> ranks;
  for (const std::vector<int>& group : grouping.groups) ranks.push_back(members[group[local.me]]);
  return ranks;
}

Neighbourhood neighbourhood(const Hierarchy& hierarchy, const std::vector<int>& members, int level, int rank) {
  Neighbourhood near;
  near.grouping = hierarchy.group(members, level);
  near.own = near.grouping.groupOf[std::find(members.begin(), members.end(), rank) - members.begin()];
  std::vector<int> ranks;
  for (int p : near.grouping.groups[near.own]) ranks.push_back(members[p]);
  near.local = groupOf(std::move(ranks), rank);
  return near;
}

Parts carriedParts(const Neighbourhood& near, const Parts& parts) {
  const int nGroups = static_cast<int>(near.grouping.groups.size());
  const int size = near.local.size();
  Parts carried(size);
  for (int d = 0; d < nGroups; ++d) {
    const std::vector<int>& group = near.grouping.groups[(near.own + d) % nGroups];
    for (int i = 0; i < static_cast<int>(group.size()); ++i) {
      std::vector<int>& list = carried[i % size];
      list.insert(list.end(), parts[group[i]].begin(), parts[group[i]].end());
    }
  }
  return carried;
}

Parts railParts(const Neighbourhood& near, const Neighbourhood::Rail& rail, const Parts& parts) {
  Parts own;
  for (size_t g = 0; g < near.grouping.groups.size(); ++g) {
    const std::vector<int>& group = near.grouping.groups[g];
    const bool owns = rail.index < static_cast<int>(group.size());
    own.push_back(owns ? parts[group[rail.index]] : std::vector<int>{});
  }
  return own;
}

namespace {

std::vector<int> pick(const std::vector<int>& members, const std::vector<int>& positions) {
  std::vector<int> picked;
  for (int p : positions) picked.push_back(members[p]);
  return picked;
}

}  // namespace

void RailWalk::reduceScatter(const std::vector<int>& members, const Parts& parts, int levels) {
  if (levels == 0) {
    builder.phase(phaseName("reduce-scatter", hierarchy, 0));
    reduceScatterBy(chosen[0], blocks, groupOf(members, rank), parts);
    return;
  }
  const Neighbourhood near = neighbourhood(hierarchy, members, levels - 1, rank);
  builder.phase(phaseName("reduce-scatter", hierarchy, levels));
  reduceScatterBy(chosen[levels], blocks, near.local, carriedParts(near, parts));
  for (const auto& rail : near.rails()) {
    reduceScatter(pick(members, rail.positions), railParts(near, rail, parts), levels - 1);
  }
}

void RailWalk::allGather(const std::vector<int>& members, const Parts& parts, int levels) {
  if (levels == 0) {
    builder.phase(phaseName("allgather", hierarchy, 0));
    allGatherBy(chosen[0], blocks, groupOf(members, rank), parts);
    return;
  }
  const Neighbourhood near = neighbourhood(hierarchy, members, levels - 1, rank);
  for (const auto& rail : near.rails()) {
    allGather(pick(members, rail.positions), railParts(near, rail, parts), levels - 1);
  }
  builder.phase(phaseName("allgather", hierarchy, levels));
  allGatherBy(chosen[levels], blocks, near.local, carriedParts(near, parts));
}

double railsUs(const Shape& s, const Hierarchy& h, const std::vector<LevelPart>& chosen, const CostModel& cost,
               double* reduced) {
  const double bytes = double(s.bytes), perMessage = double(chunksPerMessage(s, 1));
  double us = 0;
  double outside = 1;  // blocks that a carrier of the innermost level carries, from the outside in
  *reduced = 0;
  for (size_t step = 0; step < h.steps().size(); ++step) {
    const Hierarchy::Step& at = h.steps()[step];
    us += exchangeUs(chosen[step], at.link(cost), at.largest, outside, bytes, perMessage);
    *reduced += (at.largest - 1) * outside * bytes;
    // In a group that is smaller than others a member is on several rails.
    const double wrapped =
        step + 1 < h.steps().size() ? std::ceil(double(h.steps()[step + 1].largest) / h.steps()[step + 1].smallest) : 1;
    outside *= at.largest * wrapped;
  }
  return us;
}

}  // namespace tutti
