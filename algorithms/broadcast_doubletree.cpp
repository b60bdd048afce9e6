// Double tree broadcast: half of the data down each of two binary trees, in slices.
//   Whoever forwards in one tree is mostly a leaf of the other, so all ranks send all the time.
//   steps about 2 ceil(log2 n), plus two for every slice but the first; bytes sent per rank at most S.
//   Limits: none.  For large S and many ranks.
//   Sanders, Speck, Träff, Parallel Computing 35(12), 2009.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::broadcast_doubletree {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape, /*nChunks=*/2, /*nLanes=*/2);
  Blocks blocks = Blocks::ofBroadcast(b, shape, 2);
  for (int half = 0; half < 2; ++half) {
    b.lane(half).phase("down the tree");
    treeBroadcast(blocks, doubleTree(shape.rank, shape.root, shape.nRanks, half), {half});
    blocks.settle(half);
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  const double hops = 2 * ceilLog2(s.nRanks);
  const double work = (s.nRanks - 1) * 2 * cost.link(bytes / 2) / s.nRanks;
  return elapsedUs(cost, pipelineUs(cost.link, hops, bytes / 2, double(s.slotBytes), 2), work);
}

}  // namespace

extern constinit const Algorithm kBroadcastDoubleTree = {
    .collective = Collective::Broadcast,
    .name = "doubletree",
    .summary = "halves down two binary trees in slices; large messages, many ranks",
    .costUs = costUs,
    .build = build,
    .lanes = 2,
};

}  // namespace tutti::broadcast_doubletree
