// Reduce-scatter + gather reduce: every rank sums one of n shares, then sends it to the root.
//   steps ceil(log2 n) + 1; bytes sent per rank S (the root (n-1)/n * S); (n-1)/n * S reduced by each.
//   Limits: none; sums are not combined in rank order.  For large S.
//   Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005; the reduce-scatter is Träff's circulant one.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_reducescatter_gather {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  ScheduleBuilder b(shape, n);
  Blocks blocks = Blocks::ofReduce(b, shape, n);
  b.phase("reduce-scatter");
  skipReduceScatter(blocks, everyone(shape), partPerPosition(n), circulantSkips(n));
  b.phase("gather");
  if (shape.rank != shape.root) {
    blocks.send(shape.root, shape.rank);
    return b.finish();
  }
  for (int d = 1; d < n; ++d) blocks.recv(wrap(shape.root + d, n), wrap(shape.root + d, n));
  blocks.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = double(s.bytes) * (s.nRanks - 1) / s.nRanks;
  const double reduceScatter = serialUs(cost.exchange, s.nRanks - 1, moved) + cost.reduceUs(moved);
  return elapsedUs(cost, reduceScatter + burstUs(cost.link, s.nRanks - 1, moved),
                   reduceScatter + cost.link(moved / s.nRanks));
}

}  // namespace

extern constinit const Algorithm kReduceReduceScatterGather = {
    .collective = Collective::Reduce,
    .name = "reducescattergather",
    .summary = "everyone sums a share, the root gathers them; large messages",
    .costUs = costUs,
    .build = build,
    .joins = true,
};

}  // namespace tutti::reduce_reducescatter_gather
