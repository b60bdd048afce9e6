// Hierarchical allreduce: reduce-scatter inside the node, allreduce of every shard across nodes, allgather inside.
//   With g ranks on the smallest of m nodes there are g shards, and the ranks with local index i of all nodes are the
//   rail of shard i; ranks beyond g on larger nodes hold no shard and only take part inside.
//   steps 2 inside, and across ceil(log2 m) of S/g each (small shards: recursive doubling) or 2 ceil(log2 m) with
//   2(m-1)/m * S/g in all (large shards: circulant); bytes sent per rank inside 2(g-1)/g * S.
//   Limits: needs more than one node.  For several nodes with slower links between them.
//   Jia et al., "Highly scalable deep learning training system with mixed-precision", arXiv:1807.11205, 2018.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti {
namespace {

constexpr size_t kWholeShardBytes = 16 * 1024;  // up to here steps cost more than bytes

// Chunks per shard: one, or one per node.
int chunksPerShard(const Shape& shape, const Nodes& nodes) {
  return shape.bytes / static_cast<size_t>(nodes.smallest()) <= kWholeShardBytes ? 1 : nodes.count();
}

Schedule build(const Shape& shape) {
  const Nodes nodes = groupByNode(shape);
  const int shards = nodes.smallest();
  const int each = chunksPerShard(shape, nodes);
  const Group local = groupOf(nodes.ranksWith(shape.rank), shape.rank);
  Parts parts(local.size());
  for (int c = 0; c < shards * each; ++c) parts[c / each].push_back(c);

  ScheduleBuilder b(shape, shards * each);
  Blocks blocks = Blocks::ofAllReduce(b, shards * each);
  b.phase("reduce-scatter in the node");
  directReduceScatter(blocks, local, parts);
  if (local.me < shards) {
    std::vector<int> members;
    for (const auto& ranks : nodes.ranks) members.push_back(ranks[local.me]);
    const Group rail = groupOf(std::move(members), shape.rank);
    b.phase("allreduce across nodes");
    if (each == 1) {
      doublingAllReduce(blocks, rail, parts[local.me]);
    } else {
      Parts byNode;
      for (int c : parts[local.me]) byNode.push_back({c});
      const std::vector<int> skips = circulantSkips(rail.size());
      skipReduceScatter(blocks, rail, byNode, skips);
      skipAllGather(blocks, rail, byNode, skips);
    }
  }
  b.phase("allgather in the node");
  directAllGather(blocks, local, parts);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const Nodes nodes = groupByNode(s);
  const double largest = nodes.largest();
  const double m = nodes.count();
  const double each = chunksPerShard(s, nodes);
  const double shardBytes = double(s.bytes) / nodes.smallest();
  const double inside = (largest - 1) * shardBytes;  // into and out of the shard's owner
  double us = each * 2 * burstUs(cost.intra, largest - 1, inside / each) + cost.reduceUs(inside);
  if (each == 1) {
    us += (ceilLog2(nodes.count()) + (isPowerOfTwo(nodes.count()) ? 0 : 1)) *
          (cost.inter(shardBytes) + cost.reduceUs(shardBytes));
  } else {
    const double moved = shardBytes * (m - 1) / m;
    us += 2 * serialUs(cost.inter, m - 1, moved) + cost.reduceUs(moved);
  }
  return elapsedUs(cost, us);
}

}  // namespace

extern constinit const Algorithm kAllReduceHierarchical = {
    .collective = Collective::AllReduce,
    .name = "hierarchical",
    .summary = "inside the node, across nodes per shard, inside again; several nodes",
    .supports = [](const Shape& s) { return groupByNode(s).count() >= 2; },
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti
