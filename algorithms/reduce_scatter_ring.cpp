// Ring reduce-scatter: the sum of every block travels once around the ring and collects a contribution at each rank.
//   steps n-1; bytes sent per rank (n-1) * B for blocks of B, the lower bound; as much is reduced.  One scratch block.
//   Limits: none; v forms too.  For large blocks, and where a rank reaches its neighbours best.
//   Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 69(2), 2009 (first half).
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::reduce_scatter_ring {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const std::vector<int> order = ringOrder(shape);
  const int me = static_cast<int>(std::find(order.begin(), order.end(), shape.rank) - order.begin());
  const int next = order[wrap(me + 1, n)];
  const int prev = order[wrap(me - 1, n)];
  const auto block = [&](int position) { return in(order[wrap(position, n)]); };

  ScheduleBuilder b(shape);
  if (n == 1) b.copy(in(0), out(0));
  const Chunk passing = n > 2 ? b.newScratch() : out(0);  // the sum on its way to the next rank
  b.phase("ring");
  for (int step = 0; step < n - 1; ++step) {
    b.send(next, step == 0 ? block(me - 1) : passing);
    b.recvReduce(prev, block(me - step - 2), step == n - 2 ? out(0) : passing);
  }
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kReduceScatterRing = {
    .collective = Collective::ReduceScatter,
    .name = "ring",
    .summary = "every sum once around a ring; large blocks",
    .costUs = serialReduceScatterUs,
    .build = build,
};

}  // namespace tutti::reduce_scatter_ring
