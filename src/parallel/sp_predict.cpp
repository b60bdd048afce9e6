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

namespace {

/// The parts of the formula, in elements; attention's own in bytes.
struct MemoryOf {
  const tuttiSp& sp;
  size_t one;
  size_t me = static_cast<size_t>(sp.ring.rank());
  size_t query = sp.querySize(), keys = sp.keySize(sp.ring.rank());

  size_t all() const {
    size_t sum = 0;
    for (int r = 0; r < sp.ring.size(); ++r) sum += sp.keySize(r);
    return sum;
  }
  /// Both sides of an all-to-all.
  size_t exchange(int64_t columns) const {
    const size_t r = static_cast<size_t>(sp.ulysses.rank());
    const int64_t mine = sp.groupCuts[r + 1] - sp.groupCuts[r];
    return static_cast<size_t>(sp.config.batch * (sp.own() * sp.groupCuts.back() + sp.whole() * mine) * columns) * one;
  }
  size_t exchanges() const { return exchange(sp.perGroup() * sp.config.headDim); }
  size_t attend(const std::vector<TokenBlock>& queries, const std::vector<TokenBlock>& keysOf, bool gradient) const {
    return attendBytes(sp.part, queries, keysOf, one, gradient);
  }
  std::vector<TokenBlock> sequence() const { return {{0, sp.config.sequence, 0, 1}}; }

  /// Keys and values here, and those on their way; backward their gradients alike.
  size_t ring(bool gradient) const {
    const int n = sp.ring.size();
    size_t most = 0;
    for (int hop = 0; hop < n; ++hop) {
      const int owner = (sp.ring.rank() + n - hop) % n, before = (owner + n - 1) % n;
      const size_t here = 2 * sp.keySize(owner), next = 2 * sp.keySize(before), coming = hop + 1 < n ? next : 0;
      const size_t held = (here + coming + (gradient ? here : 0)) * one;
      most = std::max(most, held + attend(sp.blocks[me], sp.blocks[static_cast<size_t>(owner)], gradient));
      if (gradient && n > 1) most = std::max(most, held + next * one);
    }
    return most;
  }
  size_t forward() const {
    if (!sp.gathers() || sp.ring.size() == 1) return std::max(exchanges(), ring(false));
    const size_t gathering = 3 * all() * one;
    return std::max({exchanges(), gathering, 2 * all() * one + attend(sp.blocks[me], sequence(), false)});
  }
  /// Keys, values, gradients of a leaf, and one for what is sent; the sums of leaves; what is summed over ranks.
  size_t leaves() const {
    const LeafRange run{sp.leafRuns[me], sp.leafRuns[me + 1]};
    const std::vector<size_t> vectors = leafVectors(sp.config.leaves, run);
    size_t most = 3 * all() * one, before = 0;
    for (int64_t leaf = run.begin; leaf < run.end; ++leaf) {
      const size_t l = static_cast<size_t>(leaf);
      const std::vector<TokenBlock> block = {{0, sp.leafCuts[l + 1] - sp.leafCuts[l], sp.leafCuts[l], 1}};
      most = std::max(most, (5 + 2 * before) * all() * one + attend(block, sequence(), true));
      before = vectors[static_cast<size_t>(leaf - run.begin)];
    }
    size_t received = 0;
    for (int r = 0; r < sp.ring.size(); ++r) {
      const size_t at = static_cast<size_t>(r);
      received += subtreesOf(sp.config.leaves, {sp.leafRuns[at], sp.leafRuns[at + 1]}).size() * keys;
    }
    const size_t parts = subtreesOf(sp.config.leaves, run).size();
    const size_t packed = parts > 1 ? parts * all() : 0;
    return std::max(most, ((5 + 2 * before) * all() + received + packed) * one);
  }
  size_t backward() const {
    const size_t queries = 2 * query * one, home = 2 * keys * one;
    const size_t ends = queries + home + exchanges(), begins = queries + exchanges();
    if (!sp.gathers()) return std::max({begins, ends, queries + ring(true)});
    const size_t gathered = std::max(3 * all() * one, 5 * all() * one + attend(sp.blocks[me], sequence(), true));
    return std::max(ends, queries + home + (sp.inLeaves() ? leaves() : gathered));
  }
};

}  // namespace

size_t predictSpMemory(const tuttiSp& sp, size_t one) {
  const MemoryOf memory{sp, one};
  return std::max(memory.forward(), memory.backward());
}

void cutIntoLeaves(tuttiSp& sp) {
  const tuttiSpConfig_t& c = sp.config;
  require(c.tokens == tuttiTokensContiguous, "the same bits in every layout take contiguous tokens; tokens is ",
          c.tokens, ", leaves ", c.leaves);
  const int n = sp.ring.size(), each = sp.ulysses.size();
  sp.leafCuts = evenCuts(c.sequence, 1, c.leaves);
  const std::vector<int64_t> runs = evenCuts(c.leaves, 1, n * each);
  const auto tokenAt = [&](int rank) { return sp.leafCuts[static_cast<size_t>(runs[static_cast<size_t>(rank)])]; };
  sp.blocks.clear();
  sp.tokenCuts.clear();
  for (int r = 0; r < n; ++r) {
    sp.leafRuns.push_back(runs[static_cast<size_t>(r * each)]);
    sp.blocks.push_back({{0, tokenAt((r + 1) * each) - tokenAt(r * each), tokenAt(r * each), 1}});
  }
  sp.leafRuns.push_back(runs.back());
  const int first = sp.ring.rank() * each;
  for (int u = 0; u <= each; ++u) sp.tokenCuts.push_back(tokenAt(first + u) - tokenAt(first));
}

}  // namespace tutti::parallel
