// How a block moves a value: from one source or several that are combined, to any number of places, each source read
// once.  Long values in packs of 16 bytes, several of them in flight; short ones by lines that carry their flag.
#pragma once

#include "src/exec/kernels/packs.hpp"
#include "src/exec/kernels/walk_program.hpp"
#include "src/exec/kernels/walk_team.hpp"

namespace tutti::kernels {

/// A value's operands and places.  On a GPU the arrays are in shared memory, where any index is cheap.
struct Move {
  const unsigned char* const* sources;
  unsigned char* const* dsts;
  uint32_t nSources;
  uint32_t nDsts;
};

/// Whether all are equally far from alignment, and how far.
TUTTI_HD bool alike(const Move& m, uintptr_t* off) {
  *off = reinterpret_cast<uintptr_t>(m.sources[0]) % kPackBytes;
  bool same = true;
  for (uint32_t s = 1; s < m.nSources; ++s)
    same = same && reinterpret_cast<uintptr_t>(m.sources[s]) % kPackBytes == *off;
  for (uint32_t d = 0; d < m.nDsts; ++d) same = same && reinterpret_cast<uintptr_t>(m.dsts[d]) % kPackBytes == *off;
  return same;
}

template <int kPacks>
TUTTI_HD void copyPacks(const Move& m, uint64_t byte, uint64_t strideBytes) {
  Pack packs[kPacks];
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) packs[p] = loadPack(m.sources[0] + byte + static_cast<uint64_t>(p) * strideBytes);
  TUTTI_KEEP_LOOP  // registers are for packs
      for (uint32_t d = 0; d < m.nDsts; ++d) {
    unsigned char* to = m.dsts[d] + byte;
    TUTTI_UNROLL
    for (int p = 0; p < kPacks; ++p) storePack(to + static_cast<uint64_t>(p) * strideBytes, packs[p]);
  }
}

/// One source.  Packs where all places are alike; else words of 4 bytes, else single ones.
template <class Word, class Team>
TUTTI_HD void copyWords(Team team, const Move& m, uint64_t begin, uint64_t end) {
  TUTTI_KEEP_LOOP
  for (uint64_t i = begin + team.index() * sizeof(Word); i < end; i += team.size() * sizeof(Word)) {
    const Word value = loadElement<Word>(m.sources[0] + i);
    TUTTI_KEEP_LOOP
    for (uint32_t d = 0; d < m.nDsts; ++d) storeElement<Word>(m.dsts[d] + i, value);
  }
}

template <class Team>
TUTTI_HD void copyBytes(Team team, const Move& m, uint64_t bytes) {
  constexpr int kPacks = 8;
  uintptr_t off = 0;
  uintptr_t bits = bytes | reinterpret_cast<uintptr_t>(m.sources[0]);
  for (uint32_t d = 0; d < m.nDsts; ++d) bits |= reinterpret_cast<uintptr_t>(m.dsts[d]);
  const bool packed = alike(m, &off);
  if (!packed && bits % 4 == 0) return copyWords<uint32_t>(team, m, 0, bytes);
  const PackSplit split = splitAt(off, packed, bytes, 1);
  const uint64_t stride = team.size();
  uint64_t pack = team.index();
  for (; pack + (kPacks - 1) * stride < split.packs; pack += kPacks * stride) {
    copyPacks<kPacks>(m, split.head + pack * kPackBytes, stride * kPackBytes);
  }
  for (; pack < split.packs; pack += stride) copyPacks<1>(m, split.head + pack * kPackBytes, 0);
  copyWords<uint8_t>(team, m, 0, split.head);
  copyWords<uint8_t>(team, m, split.head + split.packs * kPackBytes, bytes);
}

template <class Format, class Op, int kPacks>
TUTTI_HD void combinePacks(const Move& m, uint64_t byte, uint64_t strideBytes) {
  typename Format::Value acc[kPacks][Batch<Format>::kLanes];
  widenPacks<Format, kPacks>(m.sources[0] + byte, strideBytes, acc);
  TUTTI_KEEP_LOOP
  for (uint32_t s = 1; s < m.nSources; ++s) {
    accumulatePacks<Format, Op, kPacks>(m.sources[s] + byte, strideBytes, acc);
  }
  Pack out[kPacks];
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) out[p] = narrowPack<Format>(acc[p]);
  TUTTI_KEEP_LOOP
  for (uint32_t d = 0; d < m.nDsts; ++d) {
    unsigned char* to = m.dsts[d] + byte;
    TUTTI_UNROLL
    for (int p = 0; p < kPacks; ++p) storePack(to + static_cast<uint64_t>(p) * strideBytes, out[p]);
  }
}

template <class Format, class Op>
TUTTI_HD void combineElement(const Move& m, uint64_t byte) {
  using Stored = typename Format::Stored;
  const Stored result = combineSources<Format, Op>(m.sources, m.nSources, byte);
  TUTTI_KEEP_LOOP
  for (uint32_t d = 0; d < m.nDsts; ++d) storeElement<Stored>(m.dsts[d] + byte, result);
}

/// Several sources, left to right, one element at a time: those of `count` that `split` leaves outside of packs, in one
/// loop, as the compiler makes code of each.  A place may be one of the sources.
template <class Format, class Op, class Team>
TUTTI_HD void combineElements(Team team, const Move& m, const PackSplit& split, uint64_t count) {
  using Stored = typename Format::Stored;
  const uint64_t packed = split.packs * (kPackBytes / sizeof(Stored));
  TUTTI_KEEP_LOOP
  for (uint64_t i = team.index(); i < count - packed; i += team.size()) {
    combineElement<Format, Op>(m, (i < split.head ? i : i + packed) * sizeof(Stored));
  }
}

/// The same by packs where that can be; `count` elements.
template <class Format, class Op, class Team>
TUTTI_HD void combineTo(Team team, const Move& m, uint64_t count) {
  using Stored = typename Format::Stored;
  constexpr int kPacks = Batch<Format>::kPacks;
  uintptr_t off = 0;
  const bool packed = alike(m, &off);
  const PackSplit split = splitAt(off, packed, count, sizeof(Stored));
  const uint64_t headBytes = split.head * sizeof(Stored);
  const uint64_t stride = team.size();
  uint64_t pack = team.index();
  if constexpr (kPacks > 1) {
    for (; pack + (kPacks - 1) * stride < split.packs; pack += kPacks * stride) {
      combinePacks<Format, Op, kPacks>(m, headBytes + pack * kPackBytes, stride * kPackBytes);
    }
  }
  for (; pack < split.packs; pack += stride) combinePacks<Format, Op, 1>(m, headBytes + pack * kPackBytes, 0);
  combineElements<Format, Op>(team, m, split, count);
}

// ---- Lines.

/// A message in lines, and the flag that its packets bear.
struct InlineMessage {
  Line* lines;
  uint32_t flag;
  uint32_t reserved;
};

/// Up to 8 bytes at any address; those past `valid` are zero.
TUTTI_HD uint64_t loadUnit(const unsigned char* from, uint32_t valid) {
  if (valid == 8) return loadElement<uint64_t>(from);
  if (valid == 4) return loadElement<uint32_t>(from);
  uint64_t unit = 0;
  for (uint32_t i = 0; i < valid; ++i) unit |= static_cast<uint64_t>(from[i]) << (8 * i);
  return unit;
}

TUTTI_HD void storeUnit(unsigned char* to, uint64_t unit, uint32_t valid) {
  if (valid == 8) return storeElement<uint64_t>(to, unit);
  if (valid == 4) return storeElement<uint32_t>(to, static_cast<uint32_t>(unit));
  for (uint32_t i = 0; i < valid; ++i) to[i] = static_cast<unsigned char>(unit >> (8 * i));
}

/// What has at most 4 bytes is one packet of 8, else a line of 16.
template <class Memory>
TUTTI_HD void putUnit(const InlineMessage& m, uint64_t index, uint64_t unit, uint32_t valid) {
  const uint64_t flag = static_cast<uint64_t>(m.flag) << 32;
  const Line line{(unit & 0xffffffffu) | flag, (unit >> 32) | flag};
  if (valid <= 4) {
    Memory::storePacket(&m.lines[index].low, line.low);
  } else {
    Memory::storeLine(m.lines + index, line);
  }
}

/// False: told to leave.
template <class Memory, class Patience>
TUTTI_HD bool takeUnit(const InlineMessage& m, uint64_t index, uint32_t valid, const uint32_t* abort, uint64_t* unit) {
  Patience patience(abort);
  while (true) {
    Line line{0, static_cast<uint64_t>(m.flag) << 32};
    if (valid <= 4) {
      line.low = Memory::loadPacket(&m.lines[index].low);
    } else {
      line = Memory::loadLine(m.lines + index);
    }
    if (line.low >> 32 == m.flag && line.high >> 32 == m.flag) {
      *unit = (line.low & 0xffffffffu) | line.high << 32;
      return true;
    }
    if (patience.over()) return false;
  }
}

}  // namespace tutti::kernels
