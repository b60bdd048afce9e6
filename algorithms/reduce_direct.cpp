// Direct reduce: everyone sends to the root, which reduces in rank order from its own on.
//   steps 1; bytes sent per rank S (the root none); the root reduces (n-1) * S.
//   Limits: none.  For few ranks and small S.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::reduce_direct {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  ScheduleBuilder b(shape);
  b.phase("direct");
  if (shape.rank != shape.root) {
    b.send(shape.root, in(0));
    return b.finish();
  }
  if (n == 1) b.copy(in(0), out(0));
  for (int d = 1; d < n; ++d) b.recvReduce(wrap(shape.root + d, n), d == 1 ? in(0) : out(0), out(0));
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  const double moved = (s.nRanks - 1) * bytes;
  return elapsedUs(cost, burstUs(cost.link, s.nRanks - 1, moved) + cost.reduceUs(moved),
                   meanWorkUs(cost.link, s.nRanks, s.nRanks - 1, moved, 1) + cost.reduceUs(moved) / s.nRanks);
}

}  // namespace

extern constinit const Algorithm kReduceDirect = {
    .collective = Collective::Reduce,
    .name = "direct",
    .summary = "everyone sends to the root; few ranks",
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti::reduce_direct
