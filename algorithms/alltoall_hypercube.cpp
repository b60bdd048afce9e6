// Hypercube all-to-all: along every dimension, neighbours exchange the blocks that have to cross it.
//   steps log2(n); bytes sent per rank n/2 * B * log2(n) for blocks of B; each block is a message.
//   Place j holds a block with j = origin xor destination where j's remaining bits are still to be crossed; it moves
//   only between equal places, so in place needs no scratch.
//   Limits: n a power of two, blocks of one size.  For hypercube networks and links to few partners: log2(n).
//   Johnsson & Ho, "Optimum broadcasting and personalized communication in hypercubes", IEEE TC 38(9), 1989.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"
#include "src/base/text.hpp"

namespace tutti::alltoall_hypercube {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  ScheduleBuilder b(shape);
  Blocks places(b, n);
  for (int j = 0; j < n; ++j) {
    places.place(j, in(shape.rank ^ j));
    places.setHome(j, out(shape.rank ^ j));
  }
  for (int bit = 1; bit < n; bit *= 2) {
    std::vector<int> crossing;
    for (int j = 0; j < n; ++j) {
      if (j & bit) crossing.push_back(j);
    }
    b.phase(cat("dimension ", bit));
    exchange(places, shape.rank ^ bit, crossing, shape.rank ^ bit, crossing, Arrival::Store);
  }
  places.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  return elapsedUs(cost, ceilLog2(s.nRanks) * serialUs(cost.link, s.nRanks / 2.0, s.nRanks / 2.0 * double(s.bytes)));
}

}  // namespace

extern constinit const Algorithm kAllToAllHypercube = {
    .collective = Collective::AllToAll,
    .name = "hypercube",
    .summary = "stored and forwarded along dimensions; powers of two, few partners",
    .lacks = [](const Shape& s) { return isPowerOfTwo(s.nRanks) ? lacksEqualBlocks(s) : "a power of two of ranks"; },
    .costUs = costUs,
    .build = build,
    .joins = true,
    .exchanges = true,
};

}  // namespace tutti::alltoall_hypercube
