// Binomial scatter: down a binomial tree, every rank gets the blocks of its subtree.
//   steps ceil(log2 n); bytes sent by the root (n-1) * B for blocks of B, to ceil(log2 n) ranks; by others less than
//   n/2.
//   Up to n/2 scratch blocks.
//   Limits: blocks of one size.  For many ranks, when the root should not hold n-1 links.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::scatter_binomial {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const int v = wrap(shape.rank - shape.root, n);
  const TreeNode node = binomialTree(v, n);
  const auto rankOf = [&](int member) { return wrap(member + shape.root, n); };
  ScheduleBuilder b(shape);
  Blocks blocks(b, n);  // by member
  for (int member = 0; member < n && v == 0; ++member) blocks.place(member, in(rankOf(member)));
  blocks.setHome(v, out(0));

  b.phase("down the tree").step();
  for (int member = v; v > 0 && member < std::min(n, v + lowBit(v)); ++member) {
    blocks.recv(rankOf(node.parent), member);
  }
  for (int child : node.children) {
    b.step();
    for (int member = child; member < std::min(n, child + lowBit(child)); ++member) {
      blocks.send(rankOf(child), member);
    }
  }
  b.endStep();
  blocks.settle(v);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kScatterBinomial = {
    .collective = Collective::Scatter,
    .name = "binomial",
    .summary = "down a binomial tree; many ranks, small blocks",
    .lacks = lacksEqualBlocks,
    .costUs = rootedBinomialUs,
    .build = build,
    .joins = true,
};

}  // namespace tutti::scatter_binomial
