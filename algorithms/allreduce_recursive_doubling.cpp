// Recursive doubling allreduce: exchange whole vectors with partners 1, 2, 4, ... away.
//   steps ceil(log2 n), one more each way where n is no power of two (the ranks beyond hand their vector to a partner
//   and get the result from it); bytes sent per rank log2(n) * S; as much is reduced.
//   Limits: none.  For small S: no allreduce with point-to-point messages has fewer steps.
//   Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allreduce_recursive_doubling {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllReduce(b, 1);
  b.phase("exchange");
  doublingAllReduce(blocks, everyone(shape), {0});
  blocks.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  double us = ceilLog2(floorPowerOfTwo(s.nRanks)) * (cost.link(bytes) + cost.reduceUs(bytes));
  if (!isPowerOfTwo(s.nRanks)) us += 2 * cost.link(bytes) + cost.reduceUs(bytes);
  return elapsedUs(cost, us);
}

}  // namespace

extern constinit const Algorithm kAllReduceRecursiveDoubling = {
    .collective = Collective::AllReduce,
    .name = "recursivedoubling",
    .summary = "exchange whole vectors with partners 1, 2, 4, ... away; small messages",
    .costUs = costUs,
    .build = build,
    .exchanges = true,
};

}  // namespace tutti::allreduce_recursive_doubling
