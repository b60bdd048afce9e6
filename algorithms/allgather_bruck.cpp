// Bruck allgather: get all that the rank d after one has, for d = 1, 2, 4, ....
//   steps ceil(log2 n) for any n; bytes sent per rank (n-1) * B for blocks of B, in n-1 messages.
//   No rotation: blocks are received where they belong.
//   Limits: none; v forms too.  For small blocks.
//   Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS
//   8(11), 1997.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allgather_bruck {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllGather(b, shape);
  b.phase("bruck");
  skipAllGather(blocks, everyone(shape), partPerPosition(shape.nRanks), powerSkips(shape.nRanks));
  blocks.settle(shape.rank);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  return elapsedUs(cost, serialUs(cost.link, s.nRanks - 1, moved));
}

}  // namespace

extern constinit const Algorithm kAllGatherBruck = {
    .collective = Collective::AllGather,
    .name = "bruck",
    .summary = "doubling for any n along distances of powers of two; small blocks",
    .costUs = costUs,
    .build = build,
    .joins = true,
};

}  // namespace tutti::allgather_bruck
