// Direct reduce-scatter: every rank sends each block of its vector to the block's owner, who reduces them.
//   steps 1; bytes sent per rank (n-1) * B for blocks of B; as much is reduced.  Staggered; no scratch.
//   Limits: none; v forms too.  Where every rank reaches every other at full speed; n-1 links per rank.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_scatter_direct {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofReduceScatter(b, shape);
  b.phase("direct");
  directReduceScatter(blocks, everyone(shape), partPerPosition(shape.nRanks));
  blocks.settle(shape.rank);
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kReduceScatterDirect = {
    .collective = Collective::ReduceScatter,
    .name = "direct",
    .summary = "every block straight to its owner; full mesh",
    .costUs = burstAndReduceUs,
    .build = build,
};

}  // namespace tutti::reduce_scatter_direct
