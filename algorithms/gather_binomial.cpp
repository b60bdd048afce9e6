// Binomial gather: up a binomial tree, every rank passes on the blocks of its subtree.
//   steps ceil(log2 n); bytes sent per rank at most n/2 * B for blocks of B, ceil(log2 n)/2 * B on average; the root
//   receives (n-1) * B from ceil(log2 n) ranks.  Up to n/2 scratch blocks.
//   Limits: blocks of one size.  For many ranks, when the root should not hold n-1 links.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::gather_binomial {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const int v = wrap(shape.rank - shape.root, n);
  const TreeNode node = binomialTree(v, n);
  const auto rankOf = [&](int member) { return wrap(member + shape.root, n); };
  ScheduleBuilder b(shape);
  Blocks blocks(b, n);  // by member
  blocks.place(v, in(0));
  for (int member = 0; member < n && v == 0; ++member) blocks.setHome(member, out(rankOf(member)));

  b.phase("up the tree");
  for (size_t i = node.children.size(); i-- > 0;) {
    const int child = node.children[i];
    b.step();
    for (int member = child; member < std::min(n, child + lowBit(child)); ++member) {
      blocks.recv(rankOf(child), member);
    }
  }
  b.step();
  for (int member = v; v > 0 && member < std::min(n, v + lowBit(v)); ++member) {
    blocks.send(rankOf(node.parent), member);
  }
  b.endStep();
  if (v == 0) blocks.settle(0);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kGatherBinomial = {
    .collective = Collective::Gather,
    .name = "binomial",
    .summary = "up a binomial tree; many ranks, small blocks",
    .lacks = lacksEqualBlocks,
    .costUs = rootedBinomialUs,
    .build = build,
    .joins = true,
};

}  // namespace tutti::gather_binomial
