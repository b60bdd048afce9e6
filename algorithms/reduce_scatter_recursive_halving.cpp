// Recursive halving reduce-scatter: keep half of what is left, give the other half to a partner n/2, n/4, ..., 1 away.
//   steps log2(n); bytes sent per rank (n-1) * B for blocks of B and n a power of two; as much is reduced.  Else each
//   rank beyond the largest power of two below gives its whole vector to a partner first and gets its block last: 2
//   steps and n * B bytes more.
//   Limits: none; v forms too.
//   Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_scatter_recursive_halving {
namespace {

Schedule build(const Shape& shape) {
  const int core = floorPowerOfTwo(shape.nRanks);
  const bool extra = shape.rank >= core;
  const int partner = extra ? shape.rank - core : shape.rank + core;
  const bool paired = partner < shape.nRanks;
  Parts parts(core);
  for (int r = 0; r < shape.nRanks; ++r) parts[r % core].push_back(r);

  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofReduceScatter(b, shape);
  if (extra) {
    b.phase("fold").step();
    for (int r = 0; r < shape.nRanks; ++r) blocks.send(partner, r);
    b.endStep();
    blocks.recv(partner, shape.rank);
    return b.finish();
  }
  b.phase("fold").step();
  for (int r = 0; r < shape.nRanks && paired; ++r) blocks.recvReduce(partner, r);
  Group group = everyone(shape);
  group.ranks.resize(core);
  b.phase("halving");
  halvingReduceScatter(blocks, group, parts);
  b.phase("unfold");
  if (paired) blocks.send(partner, partner);
  blocks.settle(shape.rank);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  double us = serialUs(cost.link, s.nRanks - 1, moved) + cost.reduceUs(moved);
  if (!isPowerOfTwo(s.nRanks)) {
    const double all = s.nRanks * double(s.bytes);
    us += serialUs(cost.link, s.nRanks, all) + cost.reduceUs(all) + cost.link(double(s.bytes));
  }
  return elapsedUs(cost, us);
}

}  // namespace

extern constinit const Algorithm kReduceScatterRecursiveHalving = {
    .collective = Collective::ReduceScatter,
    .name = "recursivehalving",
    .summary = "keep half, give half to partners n/2, ..., 1 away; small blocks, best for powers of two",
    .costUs = costUs,
    .build = build,
    .joins = true,
    .exchanges = true,
};

}  // namespace tutti::reduce_scatter_recursive_halving
