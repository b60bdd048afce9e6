// All-to-all by leaders over any number of levels: in each group all give their blocks for other groups to its first
//   member, and those for each other to each other; the leaders exchange what their groups have for each other, with a
//   level less; then they hand out what has come.
//   steps 2 per level inside, across m groups 1 (direct) or m-1 (pairwise); with g ranks on each of m nodes a leader
//   sends (m-1) g^2 * B between nodes to m-1 others, as much as all ranks of its node do without leaders; inside each
//   rank sends it (m-1) g * B, and gets as much from it.
//   Groups may differ in size.
//   Limits: needs several ranks in some group, nodes or in one; v forms too: all ranks have to know all sizes.
//   For small blocks, and ranks that share cores.
#include <cmath>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/leaders.hpp"
#include "algorithms/passing.hpp"

namespace tutti::alltoall_leaders {
namespace {

constexpr LevelPart kAcross[] = {LevelPart::Direct, LevelPart::Pairwise};

class Walk {
 public:
  explicit Walk(const Shape& shape)
      : me_(shape.rank), h_(shape), chosen_(leaderParts(shape, h_)), b_(shape), held_(shape, b_) {}

  Schedule build(const Shape& shape) {
    run(everyone(shape).ranks, partPerPosition(shape.nRanks), h_.depth());
    return b_.finish();
  }

 private:
  /// members[p] has blocks of all of parts[p] for everyone in `parts`, and gets what is for all of parts[p].
  void run(const std::vector<int>& members, const Parts& parts, int levels) {
    if (levels == 0) {
      b_.phase(phaseName("exchange", h_, 0));
      return held_.exchange(groupOf(members, me_), chosen_[0],
                            [&](int from, int to) { return bundle(parts[from], parts[to]); });
    }
    const Neighbourhood near = neighbourhood(h_, members, levels - 1, me_);
    const std::vector<int>& group = near.grouping.groups[near.own];
    std::vector<int> others;  // that belong to other groups
    for (size_t p = 0; p < parts.size(); ++p) {
      if (near.grouping.groupOf[p] != near.own) others.insert(others.end(), parts[p].begin(), parts[p].end());
    }
    b_.phase(phaseName("gather", h_, levels));
    held_.exchange(near.local, LevelPart::Direct, [&](int from, int to) {
      Bundle blocks = bundle(parts[group[from]], parts[group[to]]);
      const Bundle further = to == 0 ? bundle(parts[group[from]], others) : Bundle{};
      blocks.insert(blocks.end(), further.begin(), further.end());
      return blocks;
    });
    if (near.local.me == 0) {
      const Leaders leaders = leadersOf(near.grouping, members, parts);
      run(leaders.ranks, leaders.parts, levels - 1);
    }
    b_.phase(phaseName("scatter", h_, levels));
    held_.exchange(near.local, LevelPart::Direct,
                   [&](int from, int to) { return from == 0 ? bundle(others, parts[group[to]]) : Bundle{}; });
  }

  int me_;
  Hierarchy h_;
  std::vector<LevelPart> chosen_;
  ScheduleBuilder b_;
  HeldBlocks held_;
};

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& chosen) {
  const double perMessage = double(chunksPerMessage(s, 1)), bytes = double(s.bytes);
  double us = 0, workUs = 0;
  double carried = 1;  // ranks whose blocks a member has
  double busy = 1;     // the part of all ranks that are members
  for (size_t step = h.steps().size(); step-- > 1;) {
    const LinearCost& link = h.steps()[step].link(cost);
    const double g = h.steps()[step].largest;
    const double blocks = carried * s.nRanks;  // of a member for all others: most of them go to the leader
    const double each = serialUs(link, std::ceil(blocks / perMessage), blocks * bytes);
    us += 2 * (g - 1) * each;
    workUs += busy * 2 * (g - 1) / g * each;
    carried *= g;
    busy /= g;
  }
  // A leader sends another one the blocks of all pairs of their groups.
  const Hierarchy::Step& outermost = h.steps().front();
  const LinearCost& link = outermost.link(cost);
  const double across = exchangeUs(chosen[0], link, outermost.largest, carried * carried, bytes, perMessage);
  us += across;
  workUs += busy * across;
  if (!s.uneven) return elapsedUs(cost, us, workUs);
  return elapsedUs(cost, kUnevenMargin * us + countsUs(s, link), kUnevenMargin * workUs + countsUs(s, link));
}

}  // namespace

extern constinit const Algorithm kAllToAllLeaders = {
    .collective = Collective::AllToAll,
    .name = "leaders",
    .summary = "through a leader of each group, who alone sends to other groups; several nodes, small blocks",
    .lacks = lacksLeaders,
    .costUs = levelsUs<partsUs, leaderParts>,
    .build = [](const Shape& s) { return Walk(s).build(s); },
    .forwards = true,
    .joins = true,
    .mustJoin = true,
    .chooseParts = chooseLevelParts<partsUs, kAcross, kLeadersInside>,
};

}  // namespace tutti::alltoall_leaders
