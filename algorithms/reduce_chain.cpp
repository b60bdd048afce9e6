// Chain reduce: a sum that collects a contribution at each rank on its way to the root, in slices.
//   steps n-1, plus one for every slice of S but the first; bytes sent per rank S (the root none); S reduced by each.
//   Limits: none.  For large S: the time goes to that of one link.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_chain {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofReduce(b, shape, 1);
  b.phase("up the chain");
  treeReduce(blocks, chainFromRoot(shape), {0});
  if (shape.rank == shape.root) blocks.settle(0);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  const double work = (s.nRanks - 1) * (cost.link(bytes) + cost.reduceUs(bytes)) / s.nRanks;
  return elapsedUs(cost, pipelineUs(cost.link, s.nRanks - 1, bytes, double(s.slotBytes)) + cost.reduceUs(bytes), work);
}

}  // namespace

extern constinit const Algorithm kReduceChain = {
    .collective = Collective::Reduce,
    .name = "chain",
    .summary = "a sum from rank to rank in slices; large messages",
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti::reduce_chain
