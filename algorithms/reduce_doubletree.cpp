// Double tree reduce: half of the data up each of two binary trees, in slices; the broadcast backwards.
//   steps about 2 ceil(log2 n), plus two for every slice but the first; bytes sent per rank S (the root none); at most
//   1.5 S reduced by each.
//   Limits: none.  For large S and many ranks.
//   Sanders, Speck, Träff, Parallel Computing 35(12), 2009.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_doubletree {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape, /*nChunks=*/2, /*nLanes=*/2);
  Blocks blocks = Blocks::ofReduce(b, shape, 2);
  for (int half = 0; half < 2; ++half) {
    b.lane(half).phase("up the tree");
    treeReduce(blocks, doubleTree(shape.rank, shape.root, shape.nRanks, half), {half});
    if (shape.rank == shape.root) blocks.settle(half);
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  const double hops = 2 * ceilLog2(s.nRanks);
  const double work = (s.nRanks - 1) * 2 * (cost.link(bytes / 2) + cost.reduceUs(bytes / 2)) / s.nRanks;
  return elapsedUs(cost, pipelineUs(cost.link, hops, bytes / 2, double(s.slotBytes), 2) + cost.reduceUs(bytes), work);
}

}  // namespace

extern constinit const Algorithm kReduceDoubleTree = {
    .collective = Collective::Reduce,
    .name = "doubletree",
    .summary = "halves up two binary trees in slices; large messages, many ranks",
    .costUs = costUs,
    .build = build,
    .lanes = 2,
};

}  // namespace tutti::reduce_doubletree
