// How elements are read, combined and written: 16 bytes at a time, several of them in flight, where alignment allows
// it.
#pragma once

#include "src/exec/kernels/formats.hpp"
#include "src/exec/kernels/operators.hpp"

namespace tutti::kernels {

/// How a buffer falls into packs: elements before the first aligned pack, packs, and the rest.
struct PackSplit {
  uint64_t head = 0;
  uint64_t packs = 0;
};

/// Packs can be used if all buffers are the same number of whole elements away from alignment.
TUTTI_HD PackSplit splitAt(uintptr_t off, bool alike, uint64_t count, size_t elementBytes) {
  PackSplit split;
  if (!alike || off % elementBytes != 0) {
    split.head = count;
    return split;
  }
  split.head = (kPackBytes - off) % kPackBytes / elementBytes;
  if (split.head > count) split.head = count;
  split.packs = (count - split.head) * elementBytes / kPackBytes;
  return split;
}

/// Packs that one thread holds at a time: enough loads in flight, few enough registers.
template <class Format>
struct Batch {
  static constexpr int kLanes = kPackBytes / sizeof(typename Format::Stored);
  static constexpr int kPacks = sizeof(typename Format::Stored) >= 4           ? 4
                                : kLanes * sizeof(typename Format::Value) < 64 ? 2
                                                                               : 1;
};

/// Reads all packs before it looks at any: that many loads are in flight.
template <class Format, int kPacks>
TUTTI_HD void widenPacks(const unsigned char* from, uint64_t strideBytes,
                         typename Format::Value (&values)[kPacks][Batch<Format>::kLanes]) {
  Pack in[kPacks];
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) in[p] = loadPack(from + static_cast<uint64_t>(p) * strideBytes);
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    typename Format::Stored lanes[Batch<Format>::kLanes];
    memcpy(lanes, &in[p], sizeof in[p]);
    TUTTI_UNROLL
    for (int i = 0; i < Batch<Format>::kLanes; ++i) values[p][i] = Format::widen(lanes[i]);
  }
}

/// acc[p][i] = acc[p][i] op the same lane of the packs at `from`.
template <class Format, class Op, int kPacks>
TUTTI_HD void accumulatePacks(const unsigned char* from, uint64_t strideBytes,
                              typename Format::Value (&acc)[kPacks][Batch<Format>::kLanes]) {
  typename Format::Value more[kPacks][Batch<Format>::kLanes];
  widenPacks<Format, kPacks>(from, strideBytes, more);
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    TUTTI_UNROLL
    for (int i = 0; i < Batch<Format>::kLanes; ++i) acc[p][i] = Op::combine(acc[p][i], more[p][i]);
  }
}

template <class Format>
TUTTI_HD Pack narrowPack(const typename Format::Value (&values)[Batch<Format>::kLanes]) {
  typename Format::Stored lanes[Batch<Format>::kLanes];
  Pack pack;
  TUTTI_UNROLL
  for (int i = 0; i < Batch<Format>::kLanes; ++i) lanes[i] = Format::narrow(values[i]);
  memcpy(&pack, lanes, sizeof pack);
  return pack;
}

/// One element of every source, left to right.
template <class Format, class Op>
TUTTI_HD typename Format::Stored combineSources(const unsigned char* const* sources, uint32_t n, uint64_t byte) {
  using Stored = typename Format::Stored;
  auto acc = Format::widen(loadElement<Stored>(sources[0] + byte));
  TUTTI_KEEP_LOOP
  for (uint32_t s = 1; s < n; ++s) acc = Op::combine(acc, Format::widen(loadElement<Stored>(sources[s] + byte)));
  return Format::narrow(acc);
}

}  // namespace tutti::kernels
