// Direct broadcast: the root sends to everyone.
//   steps 1; bytes sent by the root (n-1) * S, by others none.
//   Limits: none.  For few ranks, and where one copy can be read by all (a publish).
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::broadcast_direct {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  b.phase("direct");
  if (shape.rank != shape.root) {
    b.recv(shape.root, out(0));
    return b.finish();
  }
  for (int d = 1; d < shape.nRanks; ++d) b.send(wrap(shape.root + d, shape.nRanks), in(0));
  b.copy(in(0), out(0));
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  return elapsedUs(cost, burstUs(cost.link, s.nRanks - 1, moved),
                   meanWorkUs(cost.link, s.nRanks, s.nRanks - 1, moved, 1));
}

}  // namespace

extern constinit const Algorithm kBroadcastDirect = {
    .collective = Collective::Broadcast,
    .name = "direct",
    .summary = "the root sends to everyone; few ranks",
    .costUs = costUs,
    .build = build,
    .publishes = true,
};

}  // namespace tutti::broadcast_direct
