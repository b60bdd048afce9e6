// Binomial tree reduce: the broadcast backwards.
//   steps ceil(log2 n); bytes sent per rank S (the root none); the root reduces ceil(log2 n) * S, others less.
//   Limits: none.  For small S.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_binomial {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const TreeNode node = rooted(binomialTree(wrap(shape.rank - shape.root, n), n), shape.root, n);
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofReduce(b, shape, 1);
  b.phase("up the tree");
  treeReduce(blocks, node, {0});
  if (shape.rank == shape.root) blocks.settle(0);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  const double rounds = ceilLog2(s.nRanks);  // in each of which the root receives
  const double moved = (s.nRanks - 1) * bytes;
  const double work =
      meanWorkUs(cost.link, s.nRanks, s.nRanks - 1, moved, s.nRanks / 2.0) + cost.reduceUs(moved) / s.nRanks;
  return elapsedUs(
      cost, pipelineUs(cost.link, rounds, bytes, double(s.slotBytes), rounds) + rounds * cost.reduceUs(bytes), work);
}

}  // namespace

extern constinit const Algorithm kReduceBinomial = {
    .collective = Collective::Reduce,
    .name = "binomial",
    .summary = "up a binomial tree; small messages",
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti::reduce_binomial
