// Hierarchical reduce-scatter: the ranks of a node sum their contributions to every block; one of them, with the local
// index of the block's owner, sends the sum to the owner.
//   steps 2; with g ranks on each of m nodes every rank sends m(g-1) * B inside and (m-1) * B between nodes, and
//   reduces (m(g-1) + m-1) * B. Nodes may differ in size: local indices wrap, and a rank then sums blocks for several
//   owners. Limits: needs more than one node; v forms too.  For several nodes with slower links between them.
#include <cmath>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti {
namespace {

Schedule build(const Shape& shape) {
  const Nodes nodes = groupByNode(shape);
  const int me = shape.rank;
  const int m = nodes.count();
  const int node = nodes.nodeOf[me];
  const Group local = groupOf(nodes.ranks[node], me);
  const Parts carried = carriedBlocks(nodes, me);

  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofReduceScatter(b, shape);
  b.phase("in the node");
  directReduceScatter(blocks, local, carried);
  b.phase("across nodes");
  for (int owner : carried[local.me]) {
    if (owner != me) blocks.send(owner, owner);
  }
  for (int d = 1; d < m; ++d) blocks.recvReduce(nodes.railPeer(me, wrap(node - d, m)), me);
  blocks.settle(me);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const Nodes nodes = groupByNode(s);
  const double bytes = double(s.bytes);
  const double g = nodes.largest();
  const double leaving = std::ceil(g / nodes.smallest()) * (nodes.count() - 1);  // sums of the busiest carrier
  const double inside = (leaving + 1) * (g - 1) * bytes;
  return elapsedUs(cost, (leaving + 1) * burstUs(cost.intra, g - 1, (g - 1) * bytes) + cost.reduceUs(inside) +
                             burstUs(cost.inter, leaving, leaving * bytes) +
                             cost.reduceUs((nodes.count() - 1) * bytes));
}

}  // namespace

extern constinit const Algorithm kReduceScatterHierarchical = {
    .collective = Collective::ReduceScatter,
    .name = "hierarchical",
    .summary = "sums inside the node, then across nodes per local index; several nodes",
    .supports = [](const Shape& s) { return groupByNode(s).count() >= 2; },
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti
