// PAT allgather (parallel aggregated trees): every block goes down a binomial tree of its own, all trees side by side,
//   far edges first.
//   With A blocks aggregated in one step (A * B about a slot): log2(A) steps far away, then about n/A near ones.
//   steps ceil(log2 n) for small blocks up to n-1 for large ones; bytes sent per rank (n-1) * B.
//   Limits: none; v forms too.  For many ranks: long distances carry few bytes.
//   Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252, 2025.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allgather_pat {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllGather(b, shape);
  const int n = shape.nRanks;
  b.phase("trees");
  for (const std::vector<int>& children : patSteps(n, subtreesAbreast(shape))) {
    const int h = lowBit(children.front());
    std::vector<int> sent;  // in the tree of block b this rank is member rank - b
    std::vector<int> received;
    for (int v : children) {
      sent.push_back(wrap(shape.rank - (v - h), n));
      received.push_back(wrap(shape.rank - v, n));
    }
    exchange(blocks, wrap(shape.rank + h, n), sent, wrap(shape.rank - h, n), received, Arrival::Store);
  }
  blocks.settle(shape.rank);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kAllGatherPat = {
    .collective = Collective::AllGather,
    .name = "pat",
    .summary = "a binomial tree per block, side by side, far edges first; many ranks",
    .costUs = serialAllGatherUs,
    .build = build,
    .sizeMatters = true,
    .joins = true,
};

}  // namespace tutti::allgather_pat
