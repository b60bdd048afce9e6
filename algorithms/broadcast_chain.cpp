// Chain broadcast: from rank to rank, in slices, so that all links are busy at once.
//   steps n-1, plus one for every slice of S but the first; bytes sent per rank S (the last none).
//   Limits: none.  For large S: the time goes to that of one link.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::broadcast_chain {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofBroadcast(b, shape, 1);
  b.phase("down the chain");
  treeBroadcast(blocks, chainFromRoot(shape), {0});
  blocks.settle(0);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  const double work = (s.nRanks - 1) * cost.link(bytes) / s.nRanks;
  return elapsedUs(cost, pipelineUs(cost.link, s.nRanks - 1, bytes, double(s.slotBytes)), work);
}

}  // namespace

extern constinit const Algorithm kBroadcastChain = {
    .collective = Collective::Broadcast,
    .name = "chain",
    .summary = "from rank to rank in slices; large messages",
    .costUs = costUs,
    .build = build,
};

}  // namespace tutti::broadcast_chain
