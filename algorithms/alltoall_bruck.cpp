// Bruck all-to-all in radix k: a block for the rank j ahead goes along the digits of j in base k.
//   Place j of a rank is the block that still has to be judged by j's higher digits; for digit position p and digit z
//   all places with that digit move z * k^p ranks ahead, and in the end place j came from j ranks behind.
//   steps ceil(log_k n) with k-1 partners each; bytes sent per rank at most (k-1)/k * n * B * ceil(log_k n) for blocks
//   of B (radix 2: n/2 * B * ceil(log2 n)); each block is a message.
//   In place the moving blocks live in n-1 scratch blocks.
//   Limits: blocks of one size.  For links to few partners per rank: (k-1) ceil(log_k n).
//   Bruck et al., IEEE TPDS 8(11), 1997.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"
#include "src/base/text.hpp"

namespace tutti::alltoall_bruck {
namespace {

// The places whose digit at `weight` is z = 1 .. radix-1.
std::vector<std::vector<int>> placesByDigit(int n, int weight, int radix) {
  std::vector<std::vector<int>> places(radix);
  for (int j = 1; j < n; ++j) {
    const int digit = j / weight % radix;
    if (digit > 0) places[digit].push_back(j);
  }
  return places;
}

Schedule build(const Shape& shape, int radix) {
  const int n = shape.nRanks;
  const int me = shape.rank;
  ScheduleBuilder b(shape);
  Blocks places(b, n);
  for (int j = 0; j < n; ++j) {
    places.place(j, in(wrap(me + j, n)));
    // Out of place a block waits where its successor at this place will end; in place that is still somebody's input.
    if (!shape.inPlace || j == 0) places.setHome(j, out(wrap(me - j, n)));
  }
  for (int weight = 1; weight < n; weight *= radix) {
    b.phase(cat("digit of weight ", weight)).step();
    const std::vector<std::vector<int>> moving = placesByDigit(n, weight, radix);
    for (size_t i = 0; i < moving[1].size(); ++i) {  // no digit has more places than 1
      for (int z = 1; z < radix; ++z) {
        if (i < moving[z].size()) places.send(wrap(me + z * weight, n), moving[z][i]);
      }
      for (int z = 1; z < radix; ++z) {
        if (i < moving[z].size()) places.recv(wrap(me - z * weight, n), moving[z][i]);
      }
    }
  }
  b.phase("home");
  for (int j = 0; j < n; ++j) {
    places.setHome(j, out(wrap(me - j, n)));
    places.settle(j);
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost, int radix) {
  const double bytes = double(s.bytes);
  double us = 0;
  for (int weight = 1; weight < s.nRanks; weight *= radix) {
    double blocks = 0;
    double rows = 0;
    for (const std::vector<int>& list : placesByDigit(s.nRanks, weight, radix)) {
      blocks += double(list.size());
      rows = std::max(rows, double(list.size()));
    }
    us += rows * burstUs(cost.link, blocks / rows, blocks / rows * bytes);
  }
  if (s.inPlace) us += cost.copyUs((s.nRanks - 1) * bytes);
  return elapsedUs(cost, us);
}

}  // namespace

extern constinit const Algorithm kAllToAllBruck2 = {
    .collective = Collective::AllToAll,
    .name = "bruck2",
    .summary = "forwarded along binary digits; few partners",
    .lacks = lacksEqualBlocks,
    .costUs = [](const Shape& s, const CostModel& cost) { return costUs(s, cost, 2); },
    .build = [](const Shape& s) { return build(s, 2); },
    .joins = true,
};

extern constinit const Algorithm kAllToAllBruck4 = {
    .collective = Collective::AllToAll,
    .name = "bruck4",
    .summary = "forwarded along digits in base 4; few partners, fewer bytes than bruck2",
    .lacks = lacksEqualBlocks,
    .costUs = [](const Shape& s, const CostModel& cost) { return costUs(s, cost, 4); },
    .build = [](const Shape& s) { return build(s, 4); },
    .joins = true,
};

extern constinit const Algorithm kAllToAllBruck8 = {
    .collective = Collective::AllToAll,
    .name = "bruck8",
    .summary = "forwarded along digits in base 8; many ranks",
    .lacks = lacksEqualBlocks,
    .costUs = [](const Shape& s, const CostModel& cost) { return costUs(s, cost, 8); },
    .build = [](const Shape& s) { return build(s, 8); },
    .joins = true,
};

}  // namespace tutti::alltoall_bruck
