// Hierarchical allgather over any number of levels: every block goes once to each of the other outermost groups, to the
//   rank there that carries it (same index in its group); then, level by level inwards, the members of a group share
//   what they carry.
//   steps 1 per level (direct) or ceil(log2 g) (circulant); with g ranks on each of m nodes every rank sends (m-1) * B
//   between nodes and m(g-1) * B inside.
//   Groups may differ in size: indices wrap, and a rank then carries blocks of several.
//   Limits: needs several nodes, or groups in one; v forms too.  For machines whose inner links are faster.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/rails.hpp"

namespace tutti::allgather_hierarchical {
namespace {

constexpr LevelPart kParts[] = {LevelPart::Direct, LevelPart::Circulant};

Schedule build(const Shape& shape) {
  const Hierarchy h(shape);
  return walkLevels(shape, h, directParts(shape, h), Blocks::ofAllGather, &RailWalk::allGather);
}

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& chosen) {
  double reduced = 0;
  return elapsedUs(cost, railsUs(s, h, chosen, cost, &reduced));
}

}  // namespace

extern constinit const Algorithm kAllGatherHierarchical = {
    .collective = Collective::AllGather,
    .name = "hierarchical",
    .summary = "across groups per index, then inside, at every level; several nodes, sockets, caches",
    .lacks = lacksLevels,
    .costUs = levelsUs<partsUs, directParts>,
    .build = build,
    .joins = true,
    .chooseParts = chooseLevelParts<partsUs, kParts, kParts>,
};

}  // namespace tutti::allgather_hierarchical
