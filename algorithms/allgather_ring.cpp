// Ring allgather: every block travels once around the ring.
//   steps n-1; bytes sent per rank (n-1) * B for blocks of B, the lower bound.  The ring goes node after node.
//   Limits: none; v forms too.  For large blocks, and where a rank reaches its neighbours best.
//   Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allgather_ring {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllGather(b, shape);
  const Group ring = groupOf(ringOrder(shape), shape.rank);
  b.phase("ring");
  ringAllGather(blocks, ring, partPerRank(ring));
  blocks.settle(shape.rank);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kAllGatherRing = {
    .collective = Collective::AllGather,
    .name = "ring",
    .summary = "every block once around a ring; large blocks",
    .costUs = serialAllGatherUs,
    .build = build,
};

}  // namespace tutti::allgather_ring
