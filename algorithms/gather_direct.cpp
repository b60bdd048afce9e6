// Direct gather: everyone sends its block to the root.
//   steps 1; bytes sent per rank B for blocks of B (the root none; it receives (n-1) * B).
//   Limits: none; v form too.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::gather_direct {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  b.phase("direct");
  if (shape.rank != shape.root) {
    b.send(shape.root, in(0));
    return b.finish();
  }
  b.copy(in(0), out(shape.rank));
  for (int d = 1; d < shape.nRanks; ++d) {
    const int from = wrap(shape.root + d, shape.nRanks);
    b.recv(from, out(from));
  }
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kGatherDirect = {
    .collective = Collective::Gather,
    .name = "direct",
    .summary = "everyone sends to the root",
    .costUs = rootedBurstUs,
    .build = build,
};

}  // namespace tutti::gather_direct
