// Direct scatter: the root sends everyone its block.
//   steps 1; bytes sent by the root (n-1) * B for blocks of B, by others none.
//   Limits: none; v form too.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/patterns.hpp"

namespace tutti::scatter_direct {
namespace {

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  b.phase("direct");
  if (shape.rank != shape.root) {
    b.recv(shape.root, out(0));
    return b.finish();
  }
  for (int d = 1; d < shape.nRanks; ++d) {
    const int to = wrap(shape.root + d, shape.nRanks);
    b.send(to, in(to));
  }
  b.copy(in(shape.rank), out(0));
  return b.finish();
}

}  // namespace

extern constinit const Algorithm kScatterDirect = {
    .collective = Collective::Scatter,
    .name = "direct",
    .summary = "the root sends to everyone",
    .costUs = rootedBurstUs,
    .build = build,
};

}  // namespace tutti::scatter_direct
