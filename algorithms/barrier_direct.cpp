// Direct barrier: everyone tells everyone that it has arrived.
//   steps 1; n-1 empty messages per rank.
//   Limits: none.  Where waiting is what costs: ranks that share cores give theirs away once instead of log n times.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::barrier_direct {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  ScheduleBuilder b(shape);
  b.phase("tell all");
  for (int d = 1; d < n; ++d) b.sendToken(wrap(shape.rank + d, n));
  for (int d = 1; d < n; ++d) b.recvToken(wrap(shape.rank - d, n));
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) { return elapsedUs(cost, burstUs(cost.link, s.nRanks - 1, 0)); }

}  // namespace

extern constinit const Algorithm kBarrierDirect = {
    .collective = Collective::Barrier,
    .name = "direct",
    .summary = "a token to everyone; few ranks, ranks that share cores",
    .costUs = costUs,
    .build = build,
    .publishes = true,
};

}  // namespace tutti::barrier_direct
