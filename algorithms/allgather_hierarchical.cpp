// Hierarchical allgather: every block goes once to every other node, to the rank with the same local index; then the
// ranks of a node share what they carry.
//   steps 2; with g ranks on each of m nodes every rank sends (m-1) * B between nodes and m(g-1) * B inside.
//   Nodes may differ in size: local indices wrap, and a rank then carries blocks of several.
//   Limits: needs more than one node; v forms too.  For several nodes with slower links between them.
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

  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllGather(b, shape);
  b.phase("across nodes");
  for (int d = 1; d < m; ++d) blocks.send(nodes.railPeer(me, (node + d) % m), me);
  for (int d = 1; d < m; ++d) {
    for (int other : nodes.ranks[wrap(node - d, m)]) {
      if (nodes.railPeer(other, node) == me) blocks.recv(other, other);
    }
  }
  b.phase("in the node");
  directAllGather(blocks, groupOf(nodes.ranks[node], me), carriedBlocks(nodes, me));
  blocks.settle(me);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const Nodes nodes = groupByNode(s);
  const double bytes = double(s.bytes);
  const double g = nodes.largest();
  const double arriving = std::ceil(g / nodes.smallest()) * (nodes.count() - 1);  // blocks at the busiest carrier
  const double carried = arriving + 1;
  return elapsedUs(
      cost, burstUs(cost.inter, arriving, arriving * bytes) + carried * burstUs(cost.intra, g - 1, (g - 1) * bytes));
}

}  // namespace

extern constinit const Algorithm kAllGatherHierarchical = {
    .collective = Collective::AllGather,
    .name = "hierarchical",
    .summary = "across nodes per local index, then inside; several nodes",
    .supports = [](const Shape& s) { return groupByNode(s).count() >= 2; },
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti
