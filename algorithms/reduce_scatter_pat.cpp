// PAT reduce-scatter (parallel aggregated trees): every block is summed up a binomial tree of its own, all trees side
//   by side, far edges last.
//   With A blocks aggregated in one step (A * B about a slot): log2(A) steps far away, then about n/A near ones.
//   steps ceil(log2 n) for small blocks up to n-1 for large ones; bytes sent per rank (n-1) * B.
//   Subtrees are finished one after the other, so scratch holds about A * log2(n/A) partial sums.
//   Limits: none; v forms too.  For many ranks: long distances carry few bytes, and little scratch is needed.
//   Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252, 2025.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_scatter_pat {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofReduceScatter(b, shape);
  const int n = shape.nRanks;
  const std::vector<std::vector<int>> steps = patSteps(n, subtreesAbreast(shape));
  b.phase("trees");
  for (size_t i = steps.size(); i-- > 0;) {
    const int h = lowBit(steps[i].front());
    std::vector<int> sent;  // in the tree of block b this rank is member rank - b
    std::vector<int> received;
    for (int v : steps[i]) {
      sent.push_back(wrap(shape.rank - v, n));
      received.push_back(wrap(shape.rank - (v - h), n));
    }
    exchange(blocks, wrap(shape.rank - h, n), sent, wrap(shape.rank + h, n), received, Arrival::Reduce);
    for (int block : sent) blocks.release(block);
  }
  blocks.settle(shape.rank);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kReduceScatterPat = {
    .collective = Collective::ReduceScatter,
    .name = "pat",
    .summary = "a binomial tree per block, side by side, far edges last; many ranks, little scratch",
    .costUs = serialReduceScatterUs,
    .build = build,
    .sizeMatters = true,
    .joins = true,
};

}  // namespace tutti::reduce_scatter_pat
