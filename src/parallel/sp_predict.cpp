// What attention over ranks sends, by the formula; and leaves of its sums.
#include <algorithm>

#include "src/parallel/sp.hpp"

namespace tutti::parallel {

void predictSp(const tuttiSp& sp, size_t one, tuttiTraffic_t& traffic) {
  const size_t r = static_cast<size_t>(sp.ulysses.rank());
  const int64_t mine = sp.groupCuts[r + 1] - sp.groupCuts[r], others = sp.groupCuts.back() - mine;
  const uint64_t d = static_cast<uint64_t>(sp.config.headDim), batch = static_cast<uint64_t>(sp.config.batch);
  const uint64_t away = batch * static_cast<uint64_t>(sp.own() * others) * d * one;  // per column of a group
  const uint64_t home = batch * static_cast<uint64_t>((sp.whole() - sp.own()) * mine) * d * one;
  const uint64_t wide = static_cast<uint64_t>(sp.perGroup());
  if (sp.ulysses.size() > 1) {
    for (const uint64_t bytes : {wide * away, away, away, wide * home, wide * away, wide * home, home, home}) {
      countCall(traffic, tuttiCallAllToAllv, sp.ulysses.size(), bytes);
    }
  }
  const int n = sp.ring.size(), me = sp.ring.rank();
  if (n == 1) return;
  if (sp.gathers()) {
    uint64_t all = 0;
    for (int rank = 0; rank < n; ++rank) all += sp.keySize(rank) * one;
    for (int i = 0; i < 4 && all > 0; ++i) countCall(traffic, tuttiCallAllGather, n, all);
    for (int i = 0; i < 2 && all > 0; ++i) {
      if (!sp.inLeaves()) {
        countCall(traffic, tuttiCallReduceScatter, n, all);
        continue;
      }
      const size_t ring = static_cast<size_t>(me);
      const size_t parts = subtreesOf(sp.config.leaves, {sp.leafRuns[ring], sp.leafRuns[ring + 1]}).size();
      countCall(traffic, tuttiCallAllToAllv, n, parts * (all - sp.keySize(me) * one));
    }
    return;
  }
  const auto hops = [&](int count) {
    for (int hop = 0; hop < count; ++hop) {
      countCall(traffic, tuttiCallSend, n, 2 * sp.keySize((me + n - hop) % n) * one);
      countCall(traffic, tuttiCallRecv, n, 2 * sp.keySize((me + 2 * n - hop - 1) % n) * one);
    }
  };
  hops(n - 1);  // forward
  hops(n - 1);  // backward
  hops(n);      // gradients, which go all the way home
}

void cutIntoLeaves(tuttiSp& sp) {
  const tuttiSpConfig_t& c = sp.config;
  require(c.tokens == tuttiTokensContiguous, "the same bits in every layout take contiguous tokens");
  const int n = sp.ring.size();
  sp.leafCuts = evenCuts(c.sequence, 1, c.leaves);
  sp.leafRuns = evenCuts(c.leaves, 1, n);
  int64_t token = 0;
  for (int r = 0; r < n; ++r) {
    require(token == sp.leafCuts[static_cast<size_t>(sp.leafRuns[static_cast<size_t>(r)])], c.sequence, " tokens in ",
            c.leaves, " leaves are not cut at leaves by ", n, " ranks");
    token += sp.ringTokens(r);
  }
}

}  // namespace tutti::parallel
