// Recursive doubling allgather: exchange all one has with partners 1, 2, 4, ... away.
//   steps log2(n); bytes sent per rank (n-1) * B for blocks of B and n a power of two.  Else each rank beyond the
//   largest power of two below gives its block to a partner first and gets the others from it: 2 steps more, and
//   nearly twice the bytes at the partner.
//   Limits: none; v forms too.
//   Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allgather_recursive_doubling {
namespace {

Schedule build(const Shape& shape) {
  const int core = floorPowerOfTwo(shape.nRanks);
  const bool extra = shape.rank >= core;
  const int partner = extra ? shape.rank - core : shape.rank + core;
  const bool paired = partner < shape.nRanks;
  Parts parts(core);
  for (int r = 0; r < shape.nRanks; ++r) parts[r % core].push_back(r);

  ScheduleBuilder b(shape);
  Blocks blocks = Blocks::ofAllGather(b, shape);
  if (extra) {
    b.phase("fold");
    blocks.send(partner, shape.rank);
    blocks.step();
    for (int r = 0; r < shape.nRanks; ++r) {
      if (r != shape.rank) blocks.recv(partner, r);
    }
    blocks.endStep();
  } else {
    if (paired) blocks.recv(partner, partner);
    Group group = everyone(shape);
    group.ranks.resize(core);
    b.phase("doubling");
    doublingAllGather(blocks, group, parts);
    b.phase("unfold").step();
    for (int r = 0; r < shape.nRanks && paired; ++r) {
      if (r != partner) blocks.send(partner, r);
    }
  }
  blocks.settle(shape.rank);
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  double us = serialUs(cost.link, s.nRanks - 1, moved);
  if (!isPowerOfTwo(s.nRanks)) us += cost.link(double(s.bytes)) + serialUs(cost.link, s.nRanks - 1, moved);
  return elapsedUs(cost, us);
}

}  // namespace

extern constinit const Algorithm kAllGatherRecursiveDoubling = {
    .collective = Collective::AllGather,
    .name = "recursivedoubling",
    .summary = "exchange all one has with partners 1, 2, 4, ... away; small blocks, best for powers of two",
    .costUs = costUs,
    .build = build,
    .joins = true,
    .exchanges = true,
};

}  // namespace tutti::allgather_recursive_doubling
