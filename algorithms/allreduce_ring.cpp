// Ring allreduce: reduce-scatter once around the ring, then allgather once around it.
//   steps 2(n-1); bytes sent per rank 2(n-1)/n * S, the lower bound, so it wins for large S where a rank reaches its
//   neighbours best.  The ring goes node after node, so one message at a time enters and leaves a node.
//   Limits: none.
//   Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 69(2), 2009.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allreduce_ring {
namespace {

Schedule build(const Shape& shape) {
  const Group ring = groupOf(ringOrder(shape), shape.rank);
  const int n = ring.size();
  const int next = ring.at(ring.me + 1);
  const int prev = ring.at(ring.me - 1);
  ScheduleBuilder b(shape, /*nChunks=*/n);
  b.workInOutput();
  const auto chunk = [&](int index) { return out(wrap(index, n)); };

  b.phase("reduce-scatter");  // ends with chunk me+1 complete here
  for (int step = 0; step < n - 1; ++step) {
    b.send(next, chunk(ring.me - step));
    b.recvReduce(prev, chunk(ring.me - step - 1));
  }
  b.phase("allgather");  // that chunk travels on around the ring
  for (int step = 0; step < n - 1; ++step) {
    b.send(next, chunk(ring.me - step + 1));
    b.recv(prev, chunk(ring.me - step));
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double n = s.nRanks;
  const double chunkBytes = double(s.bytes) / n;
  return elapsedUs(cost, 2 * (n - 1) * cost.link(chunkBytes) + (n - 1) * cost.reduceUs(chunkBytes));
}

}  // namespace

extern constinit const Algorithm kAllReduceRing = {
    .collective = Collective::AllReduce,
    .name = "ring",
    .summary = "reduce-scatter then allgather around one ring; large messages",
    .costUs = costUs,
    .build = build,
    .sumsOnce = true,
};

}  // namespace tutti::allreduce_ring
