// Double binary tree allreduce: up to the root and down again, half of the data in each of two trees.
//   Lane 0 works on the first half of the chunks in one binary tree, lane 1 on the second half in a tree whose inner
//   ranks are mostly leaves of the first, so that every rank sends about 2 S whatever n is.
//   steps 2 ceil(log2 n) + 2 at most, in each of which an inner rank handles two children; bytes sent per rank at most
//   2 S; S reduced on average.
//   Large halves are cut in pieces: piece t goes up while piece t - delay comes down, and nobody waits for the way
//   there and back.
//   Limits: none.  For many ranks and medium S.
//   Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
//   35(12), 2009.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allreduce_tree {
namespace {

int piecesPerLane(const Shape& s) { return piecesOf(s.bytes / 2, s.slotBytes, 16); }

Schedule build(const Shape& shape) {
  const int pieces = piecesPerLane(shape);
  const int delay = std::min(pieces, std::max(1, ceilLog2(shape.nRanks)));
  ScheduleBuilder b(shape, 2 * pieces, /*nLanes=*/2);
  Blocks blocks = Blocks::ofAllReduce(b, 2 * pieces);
  for (int lane = 0; lane < 2; ++lane) {
    const TreeNode node = lane == 0 ? binaryTree(shape.rank, shape.nRanks) : secondBinaryTree(shape.rank, shape.nRanks);
    b.lane(lane).phase("up and down");
    for (int t = 0; t < pieces + delay; ++t) {
      if (t < pieces) treeReduce(blocks, node, {lane * pieces + t});
      if (t >= delay) treeBroadcast(blocks, node, {lane * pieces + t - delay});
    }
    for (int t = 0; t < pieces; ++t) blocks.settle(lane * pieces + t);
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double pieces = piecesPerLane(s);
  const double pieceBytes = double(s.bytes) / 2 / pieces;
  const double hops = 4 * ceilLog2(s.nRanks);
  const double perPiece = 4 * cost.link(pieceBytes) + 2 * cost.reduceUs(pieceBytes);  // sends of one rank in both trees
  return elapsedUs(cost, hops * cost.link(pieceBytes) + (pieces - 1) * perPiece + cost.reduceUs(2 * pieceBytes),
                   pieces * perPiece);
}

}  // namespace

extern constinit const Algorithm kAllReduceTree = {
    .collective = Collective::AllReduce,
    .name = "tree",
    .summary = "up and down two binary trees, pipelined; many ranks, medium messages",
    .costUs = costUs,
    .build = build,
    .lanes = 2,
    .sizeMatters = true,
    .sumsOnce = true,
};

}  // namespace tutti::allreduce_tree
