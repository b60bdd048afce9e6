// Circulant broadcast: the message in k blocks, and in every round every rank sends one and receives one, along skips
// 1, ..., n/4, n/2 (rounded up) in turn.
//   steps k - 1 + ceil(log2 n) of S/k each, the fewest possible for every n and k; bytes sent per rank at most
//   (k - 1 + ceil(log2 n)) * S/k, S on average.  k grows with S, a slot per block.
//   Limits: none.  For all sizes: a tree when S is small, as fast as the link when it is large.
//   Träff, "Round-optimal n-block broadcast schedules in logarithmic time", arXiv:2312.11236, 2023.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::broadcast_circulant {
namespace {

int blocksFor(const Shape& s) { return piecesOf(s.bytes, s.slotBytes, 64); }

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const int v = wrap(shape.rank - shape.root, n);
  const CirculantBroadcast plan(n, blocksFor(shape));
  const std::vector<int> mine = plan.receives(v);
  std::vector<std::vector<int>> ahead;  // by skip: what the member so far ahead receives
  for (int skip : plan.skips) ahead.push_back(plan.receives(wrap(v + skip, n)));

  ScheduleBuilder b(shape, plan.nBlocks);
  Blocks blocks = Blocks::ofBroadcast(b, shape, plan.nBlocks);
  b.phase("rounds");
  for (int round = 0; round < plan.nRounds; ++round) {
    const int skip = plan.skip(round);
    const int sent = ahead[plan.skipIndex(round)][round];
    if (sent >= 0) blocks.send(wrap(shape.rank + skip, n), sent);
    if (mine[round] >= 0) blocks.recv(wrap(shape.rank - skip, n), mine[round]);
  }
  if (v == 0) blocks.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double k = blocksFor(s);
  const double bytes = double(s.bytes);
  return elapsedUs(cost, (k - 1 + ceilLog2(s.nRanks)) * cost.link(bytes / k),
                   (s.nRanks - 1) * k * cost.link(bytes / k) / s.nRanks);
}

}  // namespace

extern constinit const Algorithm kBroadcastCirculant = {
    .collective = Collective::Broadcast,
    .name = "circulant",
    .summary = "blocks along skips 1, ..., n/4, n/2 in the fewest rounds; all sizes",
    .costUs = costUs,
    .build = build,
    .sizeMatters = true,
};

}  // namespace tutti::broadcast_circulant
