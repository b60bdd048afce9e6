// The bodies of the reduction kernels.  None of them waits for anything: a launch always ends.
#pragma once

#include "src/exec/kernels/formats.hpp"
#include "src/exec/kernels/operators.hpp"

namespace tutti::kernels {

inline constexpr uint32_t kMostSources = 64;  // as kMaxSources of src/exec/reduce.hpp: all are combined in float

/// What the host passes by value to a reduction kernel.
struct ReduceArguments {
  const unsigned char* sources[kMostSources];
  unsigned char* dst;
  uint64_t count;  // elements
  uint32_t nSources;
  uint32_t reserved;
};
static_assert(sizeof(ReduceArguments) == 8 * kMostSources + 24, "host and device agree on the layout");

/// Same for the kernels that scale (by *scalar, or by `immediate` when scalar is null) and divide (by `divisor`).
struct ScaleArguments {
  const unsigned char* source;
  unsigned char* dst;
  const unsigned char* scalar;
  uint64_t immediate;  // the bits of one element, from the first byte on
  uint64_t count;
  int32_t divisor;
  uint32_t reserved;
};
static_assert(sizeof(ScaleArguments) == 48, "host and device agree on the layout");

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
  static constexpr int kPacks = sizeof(typename Format::Stored) >= 4 ? 4 : sizeof(typename Format::Stored) == 2 ? 2 : 1;
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

template <class Format, class Op, int kPacks>
TUTTI_HD void reducePacks(const ReduceArguments& a, uint64_t byte, uint64_t strideBytes) {
  typename Format::Value acc[kPacks][Batch<Format>::kLanes];
  widenPacks<Format, kPacks>(a.sources[0] + byte, strideBytes, acc);
  for (uint32_t s = 1; s < a.nSources; ++s) {
    accumulatePacks<Format, Op, kPacks>(a.sources[s] + byte, strideBytes, acc);
  }
  TUTTI_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    storePack(a.dst + byte + static_cast<uint64_t>(p) * strideBytes, narrowPack<Format>(acc[p]));
  }
}

template <class Format, class Op>
TUTTI_HD void reduceElement(const ReduceArguments& a, uint64_t index) {
  using Stored = typename Format::Stored;
  const uint64_t byte = index * sizeof(Stored);
  storeElement<Stored>(a.dst + byte, combineSources<Format, Op>(a.sources, a.nSources, byte));
}

/// dst[i] = sources[0][i] op sources[1][i] op ..., left to right, each source read once.  dst may be any one source:
/// an element is written by the thread that has read it.  The team's threads stride over packs, then over the rest.
template <class Format, class Op, class Team>
TUTTI_HD void reduceSources(Team team, const ReduceArguments& a) {
  using Stored = typename Format::Stored;
  const uintptr_t off = reinterpret_cast<uintptr_t>(a.dst) % kPackBytes;
  bool alike = true;
  for (uint32_t s = 0; s < a.nSources; ++s)
    alike = alike && reinterpret_cast<uintptr_t>(a.sources[s]) % kPackBytes == off;
  const PackSplit split = splitAt(off, alike, a.count, sizeof(Stored));
  constexpr int kPacks = Batch<Format>::kPacks;
  const uint64_t headBytes = split.head * sizeof(Stored);
  const uint64_t stride = team.size();
  uint64_t pack = team.index();
  for (; pack + (kPacks - 1) * stride < split.packs; pack += kPacks * stride) {
    reducePacks<Format, Op, kPacks>(a, headBytes + pack * kPackBytes, stride * kPackBytes);
  }
  for (; pack < split.packs; pack += stride) reducePacks<Format, Op, 1>(a, headBytes + pack * kPackBytes, 0);
  for (uint64_t i = team.index(); i < split.head; i += stride) reduceElement<Format, Op>(a, i);
  const uint64_t done = split.head + split.packs * (kPackBytes / sizeof(Stored));
  for (uint64_t i = done + team.index(); i < a.count; i += stride) reduceElement<Format, Op>(a, i);
}

/// dst[i] = source[i] * scalar.
template <class Format, class Team>
TUTTI_HD void scaleElements(Team team, const ScaleArguments& a) {
  using Stored = typename Format::Stored;
  Stored scalar;
  memcpy(&scalar, &a.immediate, sizeof scalar);
  if (a.scalar != nullptr) scalar = loadElement<Stored>(a.scalar);
  const auto factor = Format::widen(scalar);
  for (uint64_t i = team.index(); i < a.count; i += team.size()) {
    const auto value = Format::widen(loadElement<Stored>(a.source + i * sizeof(Stored)));
    storeElement<Stored>(a.dst + i * sizeof(Stored), Format::narrow(Prod::combine(value, factor)));
  }
}

/// dst[i] = source[i] / divisor; integers round toward zero.
template <class Format, class Team>
TUTTI_HD void divideElements(Team team, const ScaleArguments& a) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  const auto divisor = static_cast<decltype(Value{} + int32_t{})>(a.divisor);  // 8 and 16 bits: as int
  for (uint64_t i = team.index(); i < a.count; i += team.size()) {
    const Value value = Format::widen(loadElement<Stored>(a.source + i * sizeof(Stored)));
    storeElement<Stored>(a.dst + i * sizeof(Stored), Format::narrow(static_cast<Value>(value / divisor)));
  }
}

}  // namespace tutti::kernels
