// Hierarchical all-to-all, node then rail: blocks for a rank on another node first go to the rank of the own node with
// the same local index, who sends the blocks of the whole node to it.
//   steps 2; with g ranks on each of m nodes every rank sends m(g-1) * B inside and (m-1) * g * B between nodes, and
//   has m-1 partners on other nodes instead of (m-1) * g. Nodes may differ in size: local indices wrap.  In place: what
//   replaces a block arrives after the block has left. Limits: needs more than one node; blocks of one size. NVIDIA,
//   "Doubling all2all performance with NCCL 2.12" (PXN), 2022.
#include <algorithm>
#include <cmath>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti {
namespace {

Schedule build(const Shape& shape) {
  const Nodes nodes = groupByNode(shape);
  const int n = shape.nRanks;
  const int m = nodes.count();
  const int me = shape.rank;
  const int node = nodes.nodeOf[me];
  const Group local = groupOf(nodes.ranks[node], me);
  const int g = local.size();
  const Parts forwarded = carriedBlocks(nodes, me);  // forwarded[local index]: destinations, itself first
  const std::vector<int>& mine = forwarded[local.me];

  ScheduleBuilder b(shape);
  Blocks blocks(b, g * n);  // block (origin's local index) * n + destination
  for (int d = 0; d < n; ++d) blocks.place(local.me * n + d, in(d));
  for (int origin = 0; origin < g; ++origin) blocks.setHome(origin * n + me, out(local.ranks[origin]));

  b.phase("in the node");
  size_t rows = 0;
  for (const std::vector<int>& list : forwarded) rows = std::max(rows, list.size());
  for (size_t i = 0; i < rows; ++i) {
    for (int k = 1; k < g; ++k) {
      const std::vector<int>& theirs = forwarded[wrap(local.me + k, g)];
      if (i < theirs.size()) blocks.send(local.at(local.me + k), local.me * n + theirs[i]);
    }
    for (int k = 1; k < g && i < mine.size(); ++k) {
      blocks.recv(local.at(local.me - k), wrap(local.me - k, g) * n + mine[i]);
    }
  }
  blocks.settle(local.me * n + me);

  b.phase("across nodes");
  for (int i = 0; i < nodes.largest(); ++i) {  // a forwarder's own block first
    for (int destination : mine) {
      if (i < g && destination != me) blocks.send(destination, wrap(local.me + i, g) * n + destination);
    }
    for (int d = 1; d < m; ++d) {
      const std::vector<int>& there = nodes.ranks[wrap(node - d, m)];
      const int size = static_cast<int>(there.size());
      const int forwarder = nodes.railPeer(me, wrap(node - d, m));
      if (i < size) b.recv(forwarder, out(there[(nodes.localOf[forwarder] + i) % size]));
    }
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const Nodes nodes = groupByNode(s);
  const double bytes = double(s.bytes);
  const double g = nodes.largest();
  const double leaving = std::ceil(g / nodes.smallest()) * (nodes.count() - 1);  // destinations of one forwarder
  return elapsedUs(cost, (leaving + 1) * burstUs(cost.intra, g - 1, (g - 1) * bytes) +
                             g * burstUs(cost.inter, leaving, leaving * bytes));
}

}  // namespace

extern constinit const Algorithm kAllToAllHierarchical = {
    .collective = Collective::AllToAll,
    .name = "hierarchical",
    .summary = "inside the node to the right rail, then across; several nodes",
    .supports = [](const Shape& s) { return !s.uneven && groupByNode(s).count() >= 2; },
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti
