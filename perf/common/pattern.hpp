// The numbers that the programs send, and the check of what arrives, on every element.
//
// Data that only travels is raw bits hashed from (rank, index, seed): any misplaced, missing or stale element shows.
//
// Data that is reduced must give one exact result in whatever order ranks are combined.  It comes from a tile of
// kTileElements elements per rank: small integers (powers of two for products) whose partial results are all
// representable in the type, also in eight bits with 256 ranks, and in what TUTTI_WIRE has sums travel as.  Which rank
// carries which weight changes from element to element, so that a lost or doubled contribution of any rank shows.  The
// expected tile is computed by combining all ranks' tiles in exact arithmetic, once per (type, operator, rank count).
// Element i of a buffer takes the tile's element (i + rotation) mod kTileElements, the rotation being hashed from the
// seed and i / kTileElements; a prime tile length and the rotation keep a misplaced block from looking right.  Filling
// and checking then run at the speed of memcpy and memcmp.
//
// Buffers may have any alignment.  All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perf/common/types.hpp"

namespace tutti::perf {

inline constexpr size_t kTileElements = 4093;

/// What stands at (rank, index) of data that travels.
struct TravelKey {
  uint32_t key = 0;
  bool boolean = false;  // only 0 and 1
};
TravelKey travelKey(const TypeInfo& type, int rank, uint32_t seed);

/// data[0..count) = elements firstIndex.. of the pattern.
void fillTravel(void* data, size_t elementBytes, size_t firstIndex, size_t count, TravelKey key);
/// How many of them differ.
size_t countWrongTravel(const void* data, size_t elementBytes, size_t firstIndex, size_t count, TravelKey key);

/// Tiles for one (type, operator, rank count).  Immutable after construction.
class ReducePattern {
 public:
  /// op must take type; nRanks >= 1.
  ReducePattern(const TypeInfo& type, const OpInfo& op, int nRanks);

  /// kTileElements elements of `type`: what `rank` contributes.
  std::vector<std::byte> input(int rank) const;
  /// The same for the exact result.
  const std::vector<std::byte>& expected() const { return expected_; }
  /// The factor that `rank` passes to PreMulSum: 1 or 2 by parity.
  static int scalarOf(int rank) { return 1 + rank % 2; }

 private:
  int64_t value(int rank, size_t element) const;
  int64_t summand(int rank, size_t element) const;
  int64_t factor(int rank, size_t element) const;
  int64_t extremum(int rank, size_t element) const;
  int64_t bits(int rank, size_t element) const;
  int64_t truth(int rank, size_t element) const;
  int64_t sumBudget() const;
  int turn(int rank, size_t element) const;
  int64_t weight(int turn) const;
  void makeExpected();

  TypeInfo type_;
  OpInfo op_;
  int nRanks_;
  int64_t budget_ = 0;  // the sum of magnitudes may not exceed it
  int64_t largestWeight_ = 1;
  int64_t largestScale_ = 1;  // per-element factor in front of the weights
  std::vector<std::byte> expected_;
};

void fillTiled(void* data, size_t elementBytes, size_t firstIndex, size_t count, std::span<const std::byte> tile,
               uint32_t seed);
size_t countWrongTiled(const void* data, size_t elementBytes, size_t firstIndex, size_t count,
                       std::span<const std::byte> tile, uint32_t seed);

/// How many of `bytes` bytes are not `value`.
size_t countOtherBytes(const void* data, size_t bytes, unsigned char value);

/// One element of `type` from an exact value (rounded to nearest even if the type cannot hold it).
void encodeElement(const TypeInfo& type, double value, std::byte* out);

}  // namespace tutti::perf
