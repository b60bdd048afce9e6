// Binomial tree broadcast: in every step, each rank that has the data passes it on.
//   steps ceil(log2 n); bytes sent by the root ceil(log2 n) * S, by others less; (n-1)/n * S on average.
//   Limits: none.  For small S.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::broadcast_binomial {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const TreeNode node = rooted(binomialTree(wrap(shape.rank - shape.root, n), n), shape.root, n);
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofBroadcast(b, shape, 1);
  b.phase("down the tree");
  treeBroadcast(blocks, node, {0});
  blocks.settle(0);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  const double rounds = ceilLog2(s.nRanks);  // of which the root sends in each
  const double work = meanWorkUs(cost.link, s.nRanks, s.nRanks - 1, (s.nRanks - 1) * bytes, s.nRanks / 2.0);
  return elapsedUs(cost, pipelineUs(cost.link, rounds, bytes, double(s.slotBytes), rounds), work);
}

}  // namespace

extern constinit const Algorithm kBroadcastBinomial = {
    .collective = Collective::Broadcast,
    .name = "binomial",
    .summary = "everyone who has it passes it on; small messages",
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti::broadcast_binomial
