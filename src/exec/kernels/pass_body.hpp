// One pass over the buffers of all ranks of a launch (pass_program.hpp).  Host and device compile the same text.
//
// A thread reads all operands of an element before it writes a result of them, and no other thread reads or writes
// these: so calls may be in place on any of the ranks.
#pragma once

#include "src/exec/kernels/pass_program.hpp"
#include "src/exec/kernels/walk_arithmetic.hpp"

namespace tutti::kernels {

/// What the threads of a block share; in shared memory on a GPU.
struct PassState {
  const unsigned char* sources[kMostPassRanks];
  unsigned char* dsts[kMostPassRanks];
};

/// `a` to `toA` and `b` to `toB`, which may be b and a.
template <int kPacks>
TUTTI_HD void swapPacks(const PassState& s, uint64_t byte, uint64_t strideBytes) {
  Pack a[kPacks];
  Pack b[kPacks];
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) a[p] = loadPack(s.sources[0] + byte + static_cast<uint64_t>(p) * strideBytes);
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) b[p] = loadPack(s.sources[1] + byte + static_cast<uint64_t>(p) * strideBytes);
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) storePack(s.dsts[0] + byte + static_cast<uint64_t>(p) * strideBytes, a[p]);
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) storePack(s.dsts[1] + byte + static_cast<uint64_t>(p) * strideBytes, b[p]);
}

template <class Word, class Team>
TUTTI_HD void swapWords(Team team, const PassState& s, uint64_t begin, uint64_t end) {
  TUTTI_KEEP_LOOP
  for (uint64_t i = begin + team.index() * sizeof(Word); i < end; i += team.size() * sizeof(Word)) {
    const Word a = loadElement<Word>(s.sources[0] + i);
    const Word b = loadElement<Word>(s.sources[1] + i);
    storeElement<Word>(s.dsts[0] + i, a);
    storeElement<Word>(s.dsts[1] + i, b);
  }
}

template <class Team>
TUTTI_HD void swapBytes(Team team, const PassState& s, uint64_t bytes) {
  constexpr int kPacks = 4;
  uintptr_t off = 0;
  const bool packed = alike({s.sources, s.dsts, 2, 2}, &off);
  const uintptr_t bits = bytes | reinterpret_cast<uintptr_t>(s.sources[0]) | reinterpret_cast<uintptr_t>(s.sources[1]) |
                         reinterpret_cast<uintptr_t>(s.dsts[0]) | reinterpret_cast<uintptr_t>(s.dsts[1]);
  if (!packed && bits % 4 == 0) return swapWords<uint32_t>(team, s, 0, bytes);
  const PackSplit split = splitAt(off, packed, bytes, 1);
  const uint64_t stride = team.size();
  uint64_t pack = team.index();
  for (; pack + (kPacks - 1) * stride < split.packs; pack += kPacks * stride) {
    swapPacks<kPacks>(s, split.head + pack * kPackBytes, stride * kPackBytes);
  }
  for (; pack < split.packs; pack += stride) swapPacks<1>(s, split.head + pack * kPackBytes, 0);
  swapWords<uint8_t>(team, s, 0, split.head);
  swapWords<uint8_t>(team, s, split.head + split.packs * kPackBytes, bytes);
}

template <class Arithmetic, class Team>
class Pass {
 public:
  TUTTI_HD Pass(Team team, const PassArguments& arguments, PassState* state) : team_(team), a_(arguments), s_(state) {}

  /// Tiles first, first + step, ...
  TUTTI_HD void run(uint64_t first, uint64_t step) const {
    uint32_t c = 0;
    for (uint64_t tile = first; tile < a_.nTiles; tile += step) {
      while (c + 1 < a_.nCalls && a_.calls[c + 1].firstTile <= tile) ++c;
      work(a_.calls[c], a_.sides + c * a_.nRanks, static_cast<uint32_t>(tile - a_.calls[c].firstTile));
      team_.sync();  // before the pointers change
    }
  }

 private:
  TUTTI_HD void work(const PassCall& call, const PassSide* sides, uint32_t tile) const {
    const uint32_t move = tile / call.tiles;
    const uint64_t at = (tile % call.tiles) * call.tileBytes;
    const uint64_t left = call.bytes - at;
    const uint64_t bytes = left < call.tileBytes ? left : call.tileBytes;
    if constexpr (!Arithmetic::kCombines) {
      if (call.exchanges != 0) return exchange(call, sides, move, at, bytes);
    }
    const uint32_t nSources = call.reads == kAllRanks ? a_.nRanks : 1;
    const uint32_t nDsts = point(call, sides, move, at, nSources);
    team_.sync();
    const Move all{s_->sources, s_->dsts, nSources, nDsts};
    if (nDsts == 0) return;
    if (nSources > 1) return Arithmetic::combine(team_, all, bytes, 0);
    copyBytes(team_, all, bytes);
  }

  static TUTTI_HD uint32_t rankOf(uint8_t ranks, const PassCall& call, uint32_t move) {
    return ranks == kRootRank ? call.root : move;
  }

  /// Has the threads write where all operands and results are; how many results.  A copy onto itself is none.
  TUTTI_HD uint32_t point(const PassCall& call, const PassSide* sides, uint32_t move, uint64_t at,
                          uint32_t nSources) const {
    const uint64_t readAt = at + (call.readsBlock != 0 ? move * call.bytes : 0);
    const uint64_t writeAt = at + (call.writesBlock != 0 ? move * call.bytes : 0);
    const uint32_t reader = nSources > 1 ? 0 : rankOf(call.reads, call, move);
    for (uint32_t i = team_.index(); i < nSources; i += team_.size()) {
      s_->sources[i] = sides[reader + i].input + readAt;
    }
    const bool everyone = call.writes == kAllRanks;
    const uint32_t writer = everyone ? 0 : rankOf(call.writes, call, move);
    const uint32_t n = everyone ? a_.nRanks : 1;
    const bool writesReader = nSources == 1 && reader >= writer && reader < writer + n;
    const bool leavesOut = writesReader && sides[reader].output + writeAt == sides[reader].input + readAt;
    const uint32_t left = leavesOut ? reader - writer : n;
    for (uint32_t i = team_.index(); i < n; i += team_.size()) {
      if (i != left) s_->dsts[i < left ? i : i - 1] = sides[writer + i].output + writeAt;
    }
    return leavesOut ? n - 1 : n;
  }

  TUTTI_HD void exchange(const PassCall& call, const PassSide* sides, uint32_t move, uint64_t at,
                         uint64_t bytes) const {
    uint32_t i = 0;
    uint32_t j = move;
    while (j >= a_.nRanks - i) {  // the pairs (i, i), (i, i + 1), ... of every i
      j -= a_.nRanks - i;
      ++i;
    }
    j += i;
    if (team_.index() == 0) {
      s_->sources[0] = sides[i].input + j * call.bytes + at;
      s_->sources[1] = sides[j].input + i * call.bytes + at;
      s_->dsts[0] = sides[j].output + i * call.bytes + at;
      s_->dsts[1] = sides[i].output + j * call.bytes + at;
    }
    team_.sync();
    if (i != j) return swapBytes(team_, *s_, bytes);
    if (s_->dsts[0] != s_->sources[0]) copyBytes(team_, {s_->sources, s_->dsts, 1, 1}, bytes);
  }

  Team team_;
  const PassArguments& a_;
  PassState* s_;
};

}  // namespace tutti::kernels
