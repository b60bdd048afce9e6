// Hierarchical reduce-scatter over any number of levels: the members of an innermost group sum their contributions to
//   every block, each for the owners that have its index in their groups; the same on every rail with a level less; at
//   the end across the outermost groups.
//   steps 1 per level (direct) or ceil(log2 g) (circulant); with g ranks on each of m nodes every rank sends
//   m(g-1) * B inside and (m-1) * B between nodes, and reduces (m(g-1) + m-1) * B.
//   Groups may differ in size: indices wrap, and a rank then sums blocks for several owners.
//   Limits: needs several nodes, or groups in one; v forms too.  For machines whose inner links are faster.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/rails.hpp"

namespace tutti::reduce_scatter_hierarchical {
namespace {

constexpr LevelPart kParts[] = {LevelPart::Direct, LevelPart::Circulant};

Schedule build(const Shape& shape) {
  const Hierarchy h(shape);
  return walkLevels(shape, h, directParts(shape, h), Blocks::ofReduceScatter, &RailWalk::reduceScatter);
}

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& chosen) {
  double reduced = 0;
  const double moved = railsUs(s, h, chosen, cost, &reduced);
  return elapsedUs(cost, moved + cost.reduceUs(reduced));
}

}  // namespace

extern constinit const Algorithm kReduceScatterHierarchical = {
    .collective = Collective::ReduceScatter,
    .name = "hierarchical",
    .summary = "sums inside groups, then across them per index, at every level; several nodes, sockets, caches",
    .lacks = lacksLevels,
    .costUs = levelsUs<partsUs, directParts>,
    .build = build,
    .joins = true,
    .chooseParts = chooseLevelParts<partsUs, kParts, kParts>,
};

}  // namespace tutti::reduce_scatter_hierarchical
