// Circulant allgather: get all that the rank d after one has, for d = 1, ..., n/4, n/2 (rounded up).
//   steps ceil(log2 n) for any n; bytes sent per rank (n-1) * B for blocks of B, in n-1 messages.
//   The last step moves at most half of the blocks.
//   Limits: none; v forms too.  For small blocks.
//   Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allgather_circulant {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllGather(b, shape);
  b.phase("circulant");
  skipAllGather(blocks, everyone(shape), partPerPosition(shape.nRanks), circulantSkips(shape.nRanks));
  blocks.settle(shape.rank);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  return elapsedUs(cost, serialUs(cost.link, s.nRanks - 1, moved));
}

}  // namespace

extern constinit const Algorithm kAllGatherCirculant = {
    .collective = Collective::AllGather,
    .name = "circulant",
    .summary = "doubling for any n along distances n/2, n/4, ..., 1; small blocks",
    .costUs = costUs,
    .build = build,
    .joins = true,
};

}  // namespace tutti::allgather_circulant
