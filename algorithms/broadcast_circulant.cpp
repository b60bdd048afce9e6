// Circulant tree broadcast: the ranks that have the data are always the first ones after the root; they pass it a skip
// ahead, and the skips are 1, ..., n/4, n/2, rounded up.
//   steps ceil(log2 n), and the last ones reach equally many ranks each for every n; bytes sent by the root
//   ceil(log2 n) * S, (n-1)/n * S on average.
//   Limits: none.  For small S; near ranks get the data first, where the binomial tree goes far first.
//   Skips: Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const TreeNode node = rooted(circulantTree(wrap(shape.rank - shape.root, n), n), shape.root, n);
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofBroadcast(b, shape, 1);
  b.phase("down the tree");
  treeBroadcast(blocks, node, 0);
  blocks.settle(0);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  const double rounds = ceilLog2(s.nRanks);  // of which the root sends in each
  const double work = (s.nRanks - 1) * cost.link(bytes) / s.nRanks;
  return elapsedUs(cost, pipelineUs(cost.link, rounds, bytes, double(s.slotBytes), rounds), work);
}

}  // namespace

extern constinit const Algorithm kBroadcastCirculant = {
    .collective = Collective::Broadcast,
    .name = "circulant",
    .summary = "a tree along skips 1, ..., n/4, n/2; small messages",
    .supports = [](const Shape& s) { return s.nRanks >= 1; },
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti
