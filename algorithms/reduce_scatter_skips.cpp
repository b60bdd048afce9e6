// Bruck reduce-scatter: the allgather of that name backwards.  For d = ..., 4, 2, 1, hand the partial sums of the
// ranks from d after one on to the rank d after one.
//   steps ceil(log2 n) for any n; bytes sent per rank (n-1) * B for blocks of B, in n-1 messages; as much is reduced.
//   Limits: none; v forms too; sums are not combined in rank order.  For small blocks.
//   Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS
//   8(11), 1997.
//
// Circulant reduce-scatter: the allgather of that name backwards.  For d = n/2, n/4, ..., 1 (rounded up), hand the
// partial sums of the ranks from d after one on to the rank d after one.
//   steps ceil(log2 n) for any n; bytes sent per rank (n-1) * B for blocks of B, in n-1 messages; as much is reduced.
//   Limits: none; v forms too; sums are not combined in rank order.  For small blocks.
//   Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_scatter_skips {
namespace {

Schedule build(const Shape& shape, const char* name, const std::vector<int>& skips) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofReduceScatter(b, shape);
  b.phase(name);
  skipReduceScatter(blocks, everyone(shape), partPerPosition(shape.nRanks), skips);
  blocks.settle(shape.rank);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kReduceScatterBruck = {
    .collective = Collective::ReduceScatter,
    .name = "bruck",
    .summary = "halving for any n along distances of powers of two; small blocks",
    .costUs = serialReduceScatterUs,
    .build = [](const Shape& s) { return build(s, "bruck", powerSkips(s.nRanks)); },
    .joins = true,
};

extern constinit const Algorithm kReduceScatterCirculant = {
    .collective = Collective::ReduceScatter,
    .name = "circulant",
    .summary = "halving for any n along distances n/2, n/4, ..., 1; small blocks",
    .costUs = serialReduceScatterUs,
    .build = [](const Shape& s) { return build(s, "circulant", circulantSkips(s.nRanks)); },
    .joins = true,
};

}  // namespace tutti::reduce_scatter_skips
