// One-shot allreduce: every rank sends its whole vector to everyone and reduces all of them itself.
//   steps 1; bytes sent per rank (n-1) * S; (n-1) * S reduced.
//   All ranks combine in rank order, so all get the same bits.
//   Limits: none.  For small S, where only the one step counts, and few ranks.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::allreduce_oneshot {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const int me = shape.rank;
  ScheduleBuilder b(shape);
  b.phase("send to all");
  for (int d = 1; d < n; ++d) b.send(wrap(me + d, n), in(0));

  b.phase("reduce");
  if (n == 1) {
    b.copy(in(0), out(0));
  } else if (me == 0) {
    b.recvReduce(1, in(0), out(0));
  } else if (me == 1) {
    b.recvReduce(0, in(0), out(0));  // two operands: either order gives the same bits
  } else {
    const Chunk before = b.newScratch();  // the sum of the ranks before this one; out(0) may still be in(0)
    b.recv(0, before);
    for (int r = 1; r < me; ++r) b.recvReduce(r, before);
    b.reduce(before, in(0), out(0));
  }
  for (int r = me == 0 ? 2 : me + 1; r < n; ++r) b.recvReduce(r, out(0));
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kAllReduceOneShot = {
    .collective = Collective::AllReduce,
    .name = "oneshot",
    .summary = "everyone sends to everyone and reduces all; smallest messages, few ranks",
    .costUs = burstAndReduceUs,
    .build = build,
    .publishes = true,
};

}  // namespace tutti::allreduce_oneshot
