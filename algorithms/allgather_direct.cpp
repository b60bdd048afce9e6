// Direct allgather: every rank sends its block to everyone.
//   steps 1; bytes sent per rank (n-1) * B for blocks of B.  Staggered, so that no rank is everyone's first target.
//   Limits: none; v forms too.  Where every rank reaches every other at full speed; n-1 links per rank.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allgather_direct {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllGather(b, shape);
  b.phase("direct");
  directAllGather(blocks, everyone(shape), partPerPosition(shape.nRanks));
  blocks.settle(shape.rank);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kAllGatherDirect = {
    .collective = Collective::AllGather,
    .name = "direct",
    .summary = "everyone sends to everyone; full mesh",
    .costUs = burstToAllUs,
    .build = build,
    .publishes = true,
};

}  // namespace tutti::allgather_direct
