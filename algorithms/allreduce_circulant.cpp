// Circulant allreduce: reduce-scatter and allgather along distances n/2, n/4, ..., 1, rounded up.
//   steps 2 ceil(log2 n); bytes sent per rank 2(n-1)/n * S in 2(n-1) chunks; (n-1)/n * S reduced: optimal in all three
//   for every n, powers of two or not.
//   Limits: none; each sum is combined in an order that is not rank order.
//   Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allreduce_circulant {
namespace {

Schedule build(const Shape& shape) {
  const std::vector<int> skips = circulantSkips(shape.nRanks);
  const Parts parts = partPerPosition(shape.nRanks);
  ScheduleBuilder b(shape, shape.nRanks);
  Blocks blocks = Blocks::ofAllReduce(b, shape.nRanks);
  b.phase("reduce-scatter");
  skipReduceScatter(blocks, everyone(shape), parts, skips);
  b.phase("allgather");
  skipAllGather(blocks, everyone(shape), parts, skips);
  blocks.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = double(s.bytes) * (s.nRanks - 1) / s.nRanks;
  return elapsedUs(cost, 2 * serialUs(cost.link, s.nRanks - 1, moved) + cost.reduceUs(moved));
}

}  // namespace

extern constinit const Algorithm kAllReduceCirculant = {
    .collective = Collective::AllReduce,
    .name = "circulant",
    .summary = "reduce-scatter and allgather in 2 ceil(log2 n) steps for any n; medium messages",
    .costUs = costUs,
    .build = build,
    .joins = true,
    .sumsOnce = true,
};

}  // namespace tutti::allreduce_circulant
