// Circulant reduce: the circulant broadcast of k blocks backwards.
//   steps k - 1 + ceil(log2 n) of S/k each; bytes sent per rank S (the root none); at most (k - 1 + ceil(log2 n)) * S/k
//   reduced by each, S on average.  k grows with S, a slot per block.
//   Limits: none; sums are not combined in rank order.  For all sizes.
//   Träff, "Round-optimal n-block broadcast schedules in logarithmic time", arXiv:2312.11236, 2023.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::reduce_circulant {
namespace {

int blocksFor(const Shape& s) { return piecesOf(s.bytes, s.slotBytes, 64); }

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const int v = wrap(shape.rank - shape.root, n);
  const CirculantBroadcast plan(n, blocksFor(shape));
  const std::vector<int> mine = plan.receives(v);  // read backwards: what v sends
  std::vector<std::vector<int>> ahead;
  for (int skip : plan.skips) ahead.push_back(plan.receives(wrap(v + skip, n)));

  ScheduleBuilder b(shape, plan.nBlocks);
  Blocks blocks = Blocks::ofReduce(b, shape, plan.nBlocks);
  b.phase("rounds");
  for (int round = plan.nRounds - 1; round >= 0; --round) {
    const int skip = plan.skip(round);
    const int received = ahead[plan.skipIndex(round)][round];
    if (mine[round] >= 0) blocks.send(wrap(shape.rank - skip, n), mine[round]);
    if (received >= 0) blocks.recvReduce(wrap(shape.rank + skip, n), received);
  }
  if (v == 0) blocks.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double k = blocksFor(s);
  const double blockBytes = double(s.bytes) / k;
  const double step = cost.link(blockBytes) + cost.reduceUs(blockBytes);
  return elapsedUs(cost, (k - 1 + ceilLog2(s.nRanks)) * step, (s.nRanks - 1) * k * step / s.nRanks);
}

}  // namespace

extern constinit const Algorithm kReduceCirculant = {
    .collective = Collective::Reduce,
    .name = "circulant",
    .summary = "blocks along skips n/2, n/4, ..., 1 in the fewest rounds; all sizes",
    .costUs = costUs,
    .build = build,
    .sizeMatters = true,
};

}  // namespace tutti::reduce_circulant
