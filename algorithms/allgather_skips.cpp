// Bruck allgather: get all that the rank d after one has, for d = 1, 2, 4, ....
//   steps ceil(log2 n) for any n; bytes sent per rank (n-1) * B for blocks of B, in n-1 messages.
//   No rotation: blocks are received where they belong.
//   Limits: none; v forms too.  For small blocks.
//   Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS
//   8(11), 1997.
//
// Circulant allgather: get all that the rank d after one has, for d = 1, ..., n/4, n/2 (rounded up).
//   steps ceil(log2 n) for any n; bytes sent per rank (n-1) * B for blocks of B, in n-1 messages.
//   The last step moves at most half of the blocks.
//   Limits: none; v forms too.  For small blocks.
//   Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allgather_skips {
namespace {

Schedule build(const Shape& shape, const char* name, const std::vector<int>& skips) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllGather(b, shape);
  b.phase(name);
  skipAllGather(blocks, everyone(shape), partPerPosition(shape.nRanks), skips);
  blocks.settle(shape.rank);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kAllGatherBruck = {
    .collective = Collective::AllGather,
    .name = "bruck",
    .summary = "doubling for any n along distances of powers of two; small blocks",
    .costUs = serialAllGatherUs,
    .build = [](const Shape& s) { return build(s, "bruck", powerSkips(s.nRanks)); },
    .joins = true,
};

extern constinit const Algorithm kAllGatherCirculant = {
    .collective = Collective::AllGather,
    .name = "circulant",
    .summary = "doubling for any n along distances n/2, n/4, ..., 1; small blocks",
    .costUs = serialAllGatherUs,
    .build = [](const Shape& s) { return build(s, "circulant", circulantSkips(s.nRanks)); },
    .joins = true,
};

}  // namespace tutti::allgather_skips
