// Hierarchical all-to-all over any number of levels: a block first goes to the member of its sender's innermost group
//   that has the index which its receiver has in its own; then, with the blocks of that whole group, on along the rail,
//   which is the same problem with a level less.
//   steps 1 per level (direct), g-1 (pairwise); with g ranks on each of m nodes every rank sends m(g-1) * B inside and
//   (m-1) * g * B between nodes, and has m-1 partners on other nodes instead of (m-1) * g.
//   Groups may differ in size: indices wrap.  In place: what is in the way of a block that arrives moves to scratch.
//   Limits: needs several nodes, or groups in one; v forms too, for which all ranks have to know all sizes.
//   NVIDIA, "Doubling all2all performance with NCCL 2.12" (PXN), 2022.
#include <algorithm>
#include <cmath>
#include <map>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/rails.hpp"

namespace tutti::alltoall_hierarchical {
namespace {

constexpr LevelPart kParts[] = {LevelPart::Direct, LevelPart::Pairwise};

/// Blocks (origin, destination) that go from one rank to another, in this order.
using Bundle = std::vector<std::pair<int, int>>;

Bundle bundle(const std::vector<int>& origins, const std::vector<int>& destinations) {
  Bundle all;
  for (int o : origins) {
    for (int d : destinations) all.push_back({o, d});
  }
  return all;
}

class Walk {
 public:
  explicit Walk(const Shape& shape)
      : me_(shape.rank),
        nRanks_(shape.nRanks),
        inPlace_(shape.inPlace),
        namesValues_(shape.uneven),
        h_(shape),
        b_(shape) {
    chosen_ = directParts(shape, h_);
  }

  Schedule build(const Shape& shape) {
    for (int d = 0; d < shape.nRanks; ++d) {
      if (d != me_) held_[{me_, d}] = in(d);
    }
    name({me_, me_});
    b_.copy(in(me_), out(me_));
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
    const int n = group.size();
    std::vector<Bundle> out(n), in(n);
    size_t rows = 0;
    for (int k = 1; k < n; ++k) {
      out[k] = bundle(origins[group.me], destinations[wrap(group.me + k, n)]);
      in[k] = bundle(origins[wrap(group.me - k, n)], destinations[group.me]);
      rows = std::max({rows, out[k].size(), in[k].size()});
    }
    if (part == LevelPart::Pairwise) {
      for (int k = 1; k < n; ++k) {
        b_.step();
        for (size_t row = 0; row < rows; ++row) {
          if (row < out[k].size()) send(group.at(group.me + k), out[k][row]);
          if (row < in[k].size()) recv(group.at(group.me - k), in[k][row]);
        }
        endStep();
      }
      return;
    }
    b_.step();
    for (size_t row = 0; row < rows; ++row) {
      for (int k = 1; k < n; ++k) {
        if (row < out[k].size()) send(group.at(group.me + k), out[k][row]);
      }
      for (int k = 1; k < n; ++k) {
        if (row < in[k].size()) recv(group.at(group.me - k), in[k][row]);
      }
    }
    endStep();
  }

  void endStep() {
    b_.endStep();
    free_.insert(free_.end(), leaving_.begin(), leaving_.end());
    leaving_.clear();
  }

  Chunk roomInScratch() {
    if (free_.empty()) return b_.newScratch();
    const Chunk chunk = free_.back();
    free_.pop_back();
    return chunk;
  }

  void name(const std::pair<int, int>& block) {
    if (namesValues_) b_.value(block.first * nRanks_ + block.second);
  }

  void send(int peer, const std::pair<int, int>& block) {
    name(block);
    const auto found = held_.find(block);
    b_.send(peer, found->second);
    // What shares a message with others leaves later than it is sent here.
    if (found->second.buffer == Buffer::Scratch) (b_.mostChunks() > 1 ? leaving_ : free_).push_back(found->second);
    held_.erase(found);
  }

  void recv(int peer, const std::pair<int, int>& block) {
    if (block.second != me_) {
      const Chunk room = roomInScratch();
      name(block);
      b_.recv(peer, room);
      held_[block] = room;
      return;
    }
    const auto inTheWay = held_.find({me_, block.first});
    if (inPlace_ && inTheWay != held_.end() && inTheWay->second.buffer == Buffer::Input) {
      const Chunk room = roomInScratch();
      name(inTheWay->first);
      b_.copy(inTheWay->second, room);
      inTheWay->second = room;
    }
    name(block);
    b_.recv(peer, out(block.first));
  }

  int me_;
  int nRanks_;
  bool inPlace_;
  bool namesValues_;
  Hierarchy h_;
  std::vector<LevelPart> chosen_;
  ScheduleBuilder b_;
  std::map<std::pair<int, int>, Chunk> held_;  // blocks that are here and have to go on
  std::vector<Chunk> free_;
  std::vector<Chunk> leaving_;  // free from the end of the step on
};

/// Blocks of sizes that the planner does not know may be small ones, for which levels are only more to wait for: so it
/// has to be far ahead to be chosen.
constexpr double kUnevenMargin = 2;

/// Every rank tells all others its counts, 16 bytes for each rank.
double countsUs(const Shape& s, const CostModel& cost, const Hierarchy& h) {
  const LinearCost& link = h.steps().front().link(cost);
  const double n = s.nRanks;
  return std::ceil(std::log2(n)) * link(0) + 16 * n * n / (link.bandwidthGBps * 1e3);
}

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& chosen) {
  double us = 0;
  for (size_t step = 0; step < chosen.size(); ++step) {
    const Hierarchy::Step& at = h.steps()[step];
    const LinearCost& link = at.link(cost);
    const double g = at.largest;
    const double each = std::ceil(double(s.nRanks) / at.smallest);  // blocks from one to another
    us += chosen[step] == LevelPart::Pairwise ? serialUs(link, (g - 1) * each, (g - 1) * each * double(s.bytes))
                                              : exchangeUs(LevelPart::Direct, link, g, each, double(s.bytes));
  }
  if (s.uneven) us = kUnevenMargin * us + countsUs(s, cost, h);
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
