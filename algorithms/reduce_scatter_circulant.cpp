// Circulant reduce-scatter: the allgather of that name backwards.  For d = n/2, n/4, ..., 1 (rounded up), hand the
// partial sums of the ranks from d after one on to the rank d after one.
//   steps ceil(log2 n) for any n; bytes sent per rank (n-1) * B for blocks of B, in n-1 messages; as much is reduced.
//   Limits: none; v forms too; sums are not combined in rank order.  For small blocks.
//   Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_scatter_circulant {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofReduceScatter(b, shape);
  b.phase("circulant");
  skipReduceScatter(blocks, everyone(shape), partPerPosition(shape.nRanks), circulantSkips(shape.nRanks));
  blocks.settle(shape.rank);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  return elapsedUs(cost, serialUs(cost.link, s.nRanks - 1, moved) + cost.reduceUs(moved));
}

}  // namespace

extern constinit const Algorithm kReduceScatterCirculant = {
    .collective = Collective::ReduceScatter,
    .name = "circulant",
    .summary = "halving for any n along distances n/2, n/4, ..., 1; small blocks",
    .costUs = costUs,
    .build = build,
    .joins = true,
};

}  // namespace tutti::reduce_scatter_circulant
