// Pairwise all-to-all: in every step the ranks form pairs, which exchange their blocks.
//   steps n-1; bytes sent per rank (n-1) * B for blocks of B, the lower bound.
//   Step i pairs rank r with r xor i if n is a power of two, else with i - r modulo n (one step more, and every rank is
//   its own partner once).  One message at a time comes to a rank, so none is flooded; and in place needs no scratch.
//   Limits: none; v forms too.  For large blocks.
//   Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::alltoall_pairwise {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const int me = shape.rank;
  ScheduleBuilder b(shape);
  b.phase("pairs");
  for (int i = 0; i < n; ++i) {
    const int partner = isPowerOfTwo(n) ? me ^ i : wrap(i - me, n);
    if (partner == me) {
      b.copy(in(me), out(me));
    } else {
      b.send(partner, in(partner));
      b.recv(partner, out(partner));
    }
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  return elapsedUs(cost, (s.nRanks - 1) * cost.link(double(s.bytes)));
}

}  // namespace

extern constinit const Algorithm kAllToAllPairwise = {
    .collective = Collective::AllToAll,
    .name = "pairwise",
    .summary = "one partner after the other; large blocks",
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti::alltoall_pairwise
