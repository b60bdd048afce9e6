// Hierarchical all-to-all over any number of levels: a block first goes to the member of its sender's innermost group
//   that has the index which its receiver has in its own; then, with the blocks of that whole group, on along the rail,
//   which is the same problem with a level less.
//   steps 1 per level (direct), g-1 (pairwise); with g ranks on each of m nodes every rank sends m(g-1) * B inside and
//   (m-1) * g * B between nodes, and has m-1 partners on other nodes instead of (m-1) * g.
//   Groups may differ in size: indices wrap.  In place: what is in the way of a block that arrives moves to scratch.
//   Limits: needs several nodes, or groups in one; v forms too, for which all ranks have to know all sizes.
//   NVIDIA, "Doubling all2all performance with NCCL 2.12" (PXN), 2022.
#include <cmath>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/passing.hpp"
#include "algorithms/rails.hpp"

namespace tutti::alltoall_hierarchical {
namespace {

constexpr LevelPart kParts[] = {LevelPart::Direct, LevelPart::Pairwise};

class Walk {
 public:
  explicit Walk(const Shape& shape)
      : me_(shape.rank), h_(shape), chosen_(directParts(shape, h_)), b_(shape), held_(shape, b_) {}

  Schedule build(const Shape& shape) {
    const Parts own = partPerPosition(shape.nRanks);
    run(everyone(shape).ranks, own, own, h_.depth());
    return b_.finish();
  }

 private:
  /// members[p] holds blocks of origins[p] for everyone in `destinations`, and those of destinations[p] are for it.
  void run(const std::vector<int>& members, const Parts& origins, const Parts& destinations, int levels) {
    if (levels == 0) {
      b_.phase(phaseName("exchange", h_, 0));
      return exchange(groupOf(members, me_), origins, destinations, chosen_[0]);
    }
    const Neighbourhood near = neighbourhood(h_, members, levels - 1, me_);
    Parts localOrigins;
    for (int p : near.grouping.groups[near.own]) localOrigins.push_back(origins[p]);
    b_.phase(phaseName("exchange", h_, levels));
    exchange(near.local, localOrigins, carriedParts(near, destinations), chosen_[levels]);
    for (const auto& rail : near.rails()) {
      std::vector<int> ranks;
      Parts carried;
      for (int p : rail.positions) {
        ranks.push_back(members[p]);
        carried.push_back(wholeGroup(near, origins, p));
      }
      run(ranks, carried, railParts(near, rail, destinations), levels - 1);
    }
  }

  /// The origins of all members of a group, those of the member at `position` first: they leave first, and make room.
  static std::vector<int> wholeGroup(const Neighbourhood& near, const Parts& origins, int position) {
    const std::vector<int>& group = near.grouping.groups[near.grouping.groupOf[position]];
    std::vector<int> all;
    for (size_t i = 0; i < group.size(); ++i) {
      const int p = group[(near.grouping.indexIn[position] + i) % group.size()];
      all.insert(all.end(), origins[p].begin(), origins[p].end());
    }
    return all;
  }

  /// Everyone in the group gives everyone else the blocks of its origins for the other's destinations.
  void exchange(const Group& group, const Parts& origins, const Parts& destinations, LevelPart part) {
    held_.exchange(group, part, [&](int from, int to) { return bundle(origins[from], destinations[to]); });
  }

  int me_;
  Hierarchy h_;
  std::vector<LevelPart> chosen_;
  ScheduleBuilder b_;
  HeldBlocks held_;
};

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& chosen) {
  const double perMessage = double(chunksPerMessage(s, 1));
  double us = 0;
  for (size_t step = 0; step < chosen.size(); ++step) {
    const Hierarchy::Step& at = h.steps()[step];
    const double each = std::ceil(double(s.nRanks) / at.smallest);  // blocks from one to another
    us += exchangeUs(chosen[step], at.link(cost), at.largest, each, double(s.bytes), perMessage);
  }
  if (s.uneven) us = kUnevenMargin * us + countsUs(s, h.steps().front().link(cost));
  return elapsedUs(cost, us);
}

}  // namespace

extern constinit const Algorithm kAllToAllHierarchical = {
    .collective = Collective::AllToAll,
    .name = "hierarchical",
    .summary = "inside groups to the right rail, then across, at every level; several nodes, sockets, caches",
    .lacks = lacksLevels,
    .costUs = levelsUs<partsUs, directParts>,
    .build = [](const Shape& s) { return Walk(s).build(s); },
    .forwards = true,
    .joins = true,
    .chooseParts = chooseLevelParts<partsUs, kParts, kParts>,
};

}  // namespace tutti::alltoall_hierarchical
