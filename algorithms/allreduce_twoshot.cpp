// Two-shot allreduce: rank r reduces chunk r of everyone, then sends it to everyone.
//   steps 2; bytes sent per rank 2(n-1)/n * S; (n-1)/n * S reduced.
//   Limits: none.  Where every rank reaches every other at full speed (shared memory, a switch); n-1 links per rank.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allreduce_twoshot {
namespace {

Schedule build(const Shape& shape) {
  const Parts parts = partPerPosition(shape.nRanks);
  ScheduleBuilder b(shape, shape.nRanks);
  Blocks blocks = Blocks::ofAllReduce(b, shape.nRanks);
  b.phase("reduce-scatter");
  directReduceScatter(blocks, everyone(shape), parts);
  b.phase("allgather");
  directAllGather(blocks, everyone(shape), parts);
  blocks.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = double(s.bytes) * (s.nRanks - 1) / s.nRanks;
  return elapsedUs(cost, 2 * burstUs(cost.link, s.nRanks - 1, moved) + cost.reduceUs(moved));
}

}  // namespace

extern constinit const Algorithm kAllReduceTwoShot = {
    .collective = Collective::AllReduce,
    .name = "twoshot",
    .summary = "reduce-scatter and allgather, each in one step; full mesh, medium and large",
    .costUs = costUs,
    .build = build,
    .sumsOnce = true,
};

}  // namespace tutti::allreduce_twoshot
