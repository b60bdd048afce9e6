// Scatter + allgather broadcast: the root scatters n shares down a binomial tree, then all gather all shares.
//   steps 2 ceil(log2 n); bytes sent by the root at most 2(n-1)/n * S, by others less than that plus what they forward.
//   Limits: none.  For large S where a chain would be too long.
//   Barnett et al., "Interprocessor collective communication library (InterCom)", SHPCC 1994 (van de Geijn); the
//   allgather is Träff's circulant one.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::broadcast_scatter_allgather {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.nRanks;
  const int v = wrap(shape.rank - shape.root, n);  // share v belongs to the rank v after the root
  const TreeNode node = binomialTree(v, n);
  const auto rankOf = [&](int member) { return wrap(member + shape.root, n); };
  ScheduleBuilder b(shape, n);
  Blocks blocks = Blocks::ofBroadcast(b, shape, n);

  b.phase("scatter").step();
  for (int share = v; v > 0 && share < std::min(n, v + lowBit(v)); ++share) blocks.recv(rankOf(node.parent), share);
  for (int child : node.children) {
    b.step();
    for (int share = child; share < std::min(n, child + lowBit(child)); ++share) blocks.send(rankOf(child), share);
  }
  b.phase("allgather");
  std::vector<int> ranks;
  for (int member = 0; member < n; ++member) ranks.push_back(rankOf(member));
  skipAllGather(blocks, {std::move(ranks), v}, partPerPosition(n), circulantSkips(n), /*complete=*/0);
  if (v == 0) blocks.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = double(s.bytes) * (s.nRanks - 1) / s.nRanks;
  const double scatterWork = moved / 2 * ceilLog2(s.nRanks) / s.nRanks;  // half of the shares change hands a step
  const double allGather = serialUs(cost.exchange, s.nRanks - 1, moved);
  return elapsedUs(cost, serialUs(cost.link, s.nRanks - 1, moved) + allGather, allGather + cost.link(scatterWork));
}

}  // namespace

extern constinit const Algorithm kBroadcastScatterAllGather = {
    .collective = Collective::Broadcast,
    .name = "scatterallgather",
    .summary = "scatter shares, then gather them; large messages, many ranks",
    .costUs = costUs,
    .build = build,
    .joins = true,
};

}  // namespace tutti::broadcast_scatter_allgather
