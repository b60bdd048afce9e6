// Dissemination barrier: in round k everyone tells the rank 2^k ahead that it and the 2^k - 1 before it have arrived.
//   steps ceil(log2 n); an empty message per rank and step.
//   Limits: none.
//   Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", IJPP 17(1), 1988.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::barrier_dissemination {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  ScheduleBuilder b(shape);
  b.phase("dissemination");
  for (int distance = 1; distance < n; distance *= 2) {
    b.sendToken(wrap(shape.rank + distance, n));
    b.recvToken(wrap(shape.rank - distance, n));
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) { return elapsedUs(cost, ceilLog2(s.nRanks) * cost.link(0)); }

}  // namespace

extern constinit const Algorithm kBarrierDissemination = {
    .collective = Collective::Barrier,
    .name = "dissemination",
    .summary = "a token 1, 2, 4, ... ranks ahead",
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti::barrier_dissemination
