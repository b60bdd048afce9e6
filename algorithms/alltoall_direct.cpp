// Direct all-to-all: every rank sends everyone's block at once, then receives.
//   steps 1; bytes sent per rank (n-1) * B for blocks of B, the lower bound.  Staggered, so that no rank is everyone's
//   first target.  In place: a block is sent before the one that replaces it is received.
//   Limits: none; v forms too.  Where every rank reaches every other at full speed; n-1 links per rank.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::alltoall_direct {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const int me = shape.rank;
  ScheduleBuilder b(shape);
  b.phase("send to all");
  for (int d = 1; d < n; ++d) b.send(wrap(me + d, n), in(wrap(me + d, n)));
  b.copy(in(me), out(me));
  b.phase("receive");
  for (int d = 1; d < n; ++d) b.recv(wrap(me - d, n), out(wrap(me - d, n)));
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kAllToAllDirect = {
    .collective = Collective::AllToAll,
    .name = "direct",
    .summary = "everyone sends to everyone at once; full mesh",
    .costUs = burstToAllUs,
    .build = build,
};

}  // namespace tutti::alltoall_direct
