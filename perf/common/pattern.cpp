#include "perf/common/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tutti::perf {
namespace {

constexpr uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}
uint32_t hash(uint64_t a, uint64_t b) {
  return mix(mix(static_cast<uint32_t>(a) * 0x9e3779b9u + static_cast<uint32_t>(a >> 32)) + static_cast<uint32_t>(b));
}
int64_t hashBelow(uint64_t a, uint64_t b, int64_t bound) { return static_cast<int64_t>(hash(a, b)) % bound; }

// ---- Data that travels ----

constexpr size_t kPiece = 1024;  // elements made at a time, on the stack

// Pieces end at multiples of kPiece, so that an element does not depend on where filling or checking began.
template <class U>
void makePiece(U* out, size_t firstIndex, size_t count, TravelKey key) {
  const uint32_t base = static_cast<uint32_t>(firstIndex);
  const uint32_t high = key.key + static_cast<uint32_t>(firstIndex >> 32) * 0x632be5abu;
  const U mask = key.boolean ? U{1} : static_cast<U>(~U{0});
  for (size_t i = 0; i < count; ++i) {
    uint32_t x = (base + static_cast<uint32_t>(i)) * 0x9e3779b1u + high;
    x ^= x >> 15;
    x *= 0x85ebca77u;
    x ^= x >> 13;
    if constexpr (sizeof(U) == 8) {
      out[i] = (static_cast<U>(x * 0xc2b2ae3du) << 32) | x;
    } else {
      out[i] = static_cast<U>(static_cast<U>(x) & mask);
    }
  }
}

template <class F>
void forPieces(size_t firstIndex, size_t count, F f) {
  for (size_t done = 0; done < count;) {
    const size_t index = firstIndex + done;
    const size_t n = std::min(kPiece - index % kPiece, count - done);
    f(index, done, n);
    done += n;
  }
}

template <class U>
void fillTravelAs(std::byte* data, size_t firstIndex, size_t count, TravelKey key) {
  U piece[kPiece];
  forPieces(firstIndex, count, [&](size_t index, size_t done, size_t n) {
    makePiece(piece, index, n, key);
    std::memcpy(data + done * sizeof(U), piece, n * sizeof(U));
  });
}

size_t countDifferent(const std::byte* a, const std::byte* b, size_t count, size_t elementBytes) {
  if (std::memcmp(a, b, count * elementBytes) == 0) return 0;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i * elementBytes, b + i * elementBytes, elementBytes) != 0) ++wrong;
  }
  return wrong;
}

template <class U>
size_t countWrongTravelAs(const std::byte* data, size_t firstIndex, size_t count, TravelKey key) {
  U piece[kPiece];
  size_t wrong = 0;
  forPieces(firstIndex, count, [&](size_t index, size_t done, size_t n) {
    makePiece(piece, index, n, key);
    wrong += countDifferent(data + done * sizeof(U), reinterpret_cast<const std::byte*>(piece), n, sizeof(U));
  });
  return wrong;
}

// Calls f(done, position in the tile, n) for runs that are contiguous in both.
template <class F>
void forRuns(size_t firstIndex, size_t count, uint32_t seed, F f) {
  for (size_t done = 0; done < count;) {
    const size_t index = firstIndex + done;
    const size_t segment = index / kTileElements;
    const size_t rotation = hash(segment, seed) % kTileElements;
    const size_t position = (index % kTileElements + rotation) % kTileElements;
    const size_t n = std::min({count - done, kTileElements - index % kTileElements, kTileElements - position});
    f(done, position, n);
    done += n;
  }
}

// IEEE-like floats of up to 16 bits.
uint32_t encodeSmallFloat(double value, int significandBits, int exponentBits) {
  const int fraction = significandBits - 1;
  const int bias = (1 << (exponentBits - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (fraction + exponentBits) : 0u;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  double units = std::nearbyint(std::ldexp(magnitude, fraction - exponent));
  const double hidden = std::ldexp(1.0, fraction);
  if (units >= 2 * hidden) {
    units /= 2;
    ++exponent;
  }
  if (units < hidden) return sign | static_cast<uint32_t>(units);  // subnormal
  return sign | static_cast<uint32_t>(exponent + bias) << fraction | static_cast<uint32_t>(units - hidden);
}

/// Bits of whole numbers that sums keep between hosts, where TUTTI_WIRE rounds them.
int bitsBetweenHosts() {
  const char* const wire = std::getenv("TUTTI_WIRE");
  const std::string_view format = wire == nullptr ? "" : wire;
  return format == "bf16" ? 8 : format == "fp8" ? 4 : format == "int8" ? 6 : 64;
}

void encodeInteger(const TypeInfo& type, int64_t value, std::byte* out) {
  if (type.kind == Kind::Boolean) value = value != 0;
  std::memcpy(out, &value, type.bytes);  // little endian: the low bytes are the value modulo 2^bits
}

}  // namespace

void encodeElement(const TypeInfo& type, double value, std::byte* out) {
  if (type.kind != Kind::Floating) return encodeInteger(type, static_cast<int64_t>(value), out);
  if (type.bytes == 8) {
    std::memcpy(out, &value, 8);
  } else if (type.bytes == 4) {
    const float single = static_cast<float>(value);
    std::memcpy(out, &single, 4);
  } else {
    const uint32_t bits = encodeSmallFloat(value, type.significandBits, type.exponentBits);
    std::memcpy(out, &bits, type.bytes);
  }
}

TravelKey travelKey(const TypeInfo& type, int rank, uint32_t seed) {
  return {hash(static_cast<uint64_t>(rank) + 1, seed), type.kind == Kind::Boolean};
}

void fillTravel(void* data, size_t elementBytes, size_t firstIndex, size_t count, TravelKey key) {
  std::byte* bytes = static_cast<std::byte*>(data);
  switch (elementBytes) {
    case 1: return fillTravelAs<uint8_t>(bytes, firstIndex, count, key);
    case 2: return fillTravelAs<uint16_t>(bytes, firstIndex, count, key);
    case 4: return fillTravelAs<uint32_t>(bytes, firstIndex, count, key);
    default: return fillTravelAs<uint64_t>(bytes, firstIndex, count, key);
  }
}

size_t countWrongTravel(const void* data, size_t elementBytes, size_t firstIndex, size_t count, TravelKey key) {
  const std::byte* bytes = static_cast<const std::byte*>(data);
  switch (elementBytes) {
    case 1: return countWrongTravelAs<uint8_t>(bytes, firstIndex, count, key);
    case 2: return countWrongTravelAs<uint16_t>(bytes, firstIndex, count, key);
    case 4: return countWrongTravelAs<uint32_t>(bytes, firstIndex, count, key);
    default: return countWrongTravelAs<uint64_t>(bytes, firstIndex, count, key);
  }
}

void fillTiled(void* data, size_t elementBytes, size_t firstIndex, size_t count, std::span<const std::byte> tile,
               uint32_t seed) {
  std::byte* bytes = static_cast<std::byte*>(data);
  forRuns(firstIndex, count, seed, [&](size_t done, size_t position, size_t n) {
    std::memcpy(bytes + done * elementBytes, tile.data() + position * elementBytes, n * elementBytes);
  });
}

size_t countWrongTiled(const void* data, size_t elementBytes, size_t firstIndex, size_t count,
                       std::span<const std::byte> tile, uint32_t seed) {
  const std::byte* bytes = static_cast<const std::byte*>(data);
  size_t wrong = 0;
  forRuns(firstIndex, count, seed, [&](size_t done, size_t position, size_t n) {
    wrong += countDifferent(bytes + done * elementBytes, tile.data() + position * elementBytes, n, elementBytes);
  });
  return wrong;
}

size_t countOtherBytes(const void* data, size_t bytes, unsigned char value) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  size_t other = 0;
  for (size_t i = 0; i < bytes; ++i) other += p[i] != value ? 1u : 0u;
  return other;
}

// ---- Data that is reduced ----

ReducePattern::ReducePattern(const TypeInfo& type, const OpInfo& op, int nRanks)
    : type_(type), op_(op), nRanks_(nRanks) {
  budget_ = sumBudget();
  const int64_t perRank = budget_ / nRanks_;
  largestWeight_ = std::clamp<int64_t>(perRank, 1, 7);
  largestScale_ = std::clamp<int64_t>(perRank / largestWeight_, 1, 31);
  makeExpected();
}

// How large the sum of magnitudes may grow so that every partial sum is exact.
int64_t ReducePattern::sumBudget() const {
  int64_t budget = int64_t{1} << 20;
  if (type_.kind == Kind::Floating) {
    budget = std::min(budget, int64_t{1} << std::min(type_.significandBits, bitsBetweenHosts()));
  } else if (op_.kind == OpKind::Avg && type_.bytes <= 2) {  // plain sums wrap, averages must not
    budget = (int64_t{1} << (8 * static_cast<int>(type_.bytes) - (type_.kind == Kind::Signed ? 1 : 0))) - 1;
  }
  return op_.kind == OpKind::MulSum ? budget / 2 : budget;
}

// Every rank has another turn at each element; all turns 0..nRanks-1 occur.
int ReducePattern::turn(int rank, size_t element) const {
  return static_cast<int>((rank + hashBelow(element, 1, nRanks_)) % nRanks_);
}

// Weights of all turns sum to at most budget / largestScale; where ranks outnumber the budget, most weights are 0.
int64_t ReducePattern::weight(int t) const {
  if (budget_ < nRanks_) return (t + 1) * budget_ / nRanks_ - t * budget_ / nRanks_;
  return 1 + hashBelow(static_cast<uint64_t>(t), 2, largestWeight_);
}

int64_t ReducePattern::summand(int rank, size_t element) const {
  const int64_t scale = 1 + hashBelow(element, 3, largestScale_);
  const bool negative = type_.kind != Kind::Unsigned && hash(element, 4) % 2 == 1;
  return (negative ? -scale : scale) * weight(turn(rank, element));
}

// At most 6 factors of two per element, the rest is +-1 (and 3 for integers, whose products wrap).
int64_t ReducePattern::factor(int rank, size_t element) const {
  const int64_t twos = 1 + hashBelow(element, 5, std::min(6, nRanks_));
  const int64_t t = turn(rank, element);
  const bool two = (t + 1) * twos / nRanks_ != t * twos / nRanks_;
  const uint32_t h = hash(element * 4096 + static_cast<uint64_t>(rank), 6);
  const int64_t magnitude = two ? 2 : type_.kind != Kind::Floating && h % 4 >= 2 ? 3 : 1;
  return h % 2 == 1 ? -magnitude : magnitude;
}

// One rank at a time holds the largest (smallest) value, alone.
int64_t ReducePattern::extremum(int rank, size_t element) const {
  if (type_.kind == Kind::Boolean) return truth(rank, element);
  const bool wins = turn(rank, element) == 0;
  const bool max = op_.kind == OpKind::Max;
  const uint64_t where = element * 4096 + static_cast<uint64_t>(rank);
  const int64_t low = hashBelow(where, 7, 4), high = 8 + hashBelow(where, 7, 4);
  const int64_t value = wins == max ? high : low;
  return type_.kind == Kind::Unsigned || hash(element, 8) % 2 == 0 ? value : value - 12;
}

// One rank at a time has random bits; the others leave most to it.
int64_t ReducePattern::bits(int rank, size_t element) const {
  const uint64_t where = element * 4096 + static_cast<uint64_t>(rank);
  const uint64_t random = uint64_t{hash(where, 9)} << 32 | hash(where, 10);
  if (type_.kind == Kind::Boolean) return op_.kind == OpKind::Bxor ? int64_t{random & 1 ? 1 : 0} : truth(rank, element);
  if (op_.kind == OpKind::Bxor || turn(rank, element) == 0) return static_cast<int64_t>(random);
  const uint64_t sparse = random & (random >> 7) & (random << 9) & (random >> 13);
  return static_cast<int64_t>(op_.kind == OpKind::Band ? ~sparse : sparse);
}

// Nobody can tell the result but the rank whose turn it is.
int64_t ReducePattern::truth(int rank, size_t element) const {
  const bool all = op_.kind == OpKind::Land || op_.kind == OpKind::Band || op_.kind == OpKind::Min;
  const bool decides = turn(rank, element) == 0 && hash(element, 11) % 2 == 0;
  if (decides == all) return 0;
  return type_.kind == Kind::Boolean ? 1 : 1 + hashBelow(element, static_cast<uint64_t>(rank), 3);
}

int64_t ReducePattern::value(int rank, size_t element) const {
  switch (op_.kind) {
    case OpKind::Sum:
    case OpKind::Avg:
    case OpKind::MulSum: return summand(rank, element);
    case OpKind::Prod: return factor(rank, element);
    case OpKind::Min:
    case OpKind::Max: return extremum(rank, element);
    case OpKind::Band:
    case OpKind::Bor:
    case OpKind::Bxor: return bits(rank, element);
    case OpKind::Land:
    case OpKind::Lor: return truth(rank, element);
  }
  return 0;
}

namespace {

int64_t combine(OpKind op, int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case OpKind::Sum:
    case OpKind::Avg:
    case OpKind::MulSum: return static_cast<int64_t>(x + y);
    case OpKind::Prod: return static_cast<int64_t>(x * y);
    case OpKind::Min: return std::min(a, b);
    case OpKind::Max: return std::max(a, b);
    case OpKind::Band: return a & b;
    case OpKind::Bor: return a | b;
    case OpKind::Bxor: return a ^ b;
    case OpKind::Land: return a != 0 && b != 0;
    case OpKind::Lor: return a != 0 || b != 0;
  }
  return 0;
}

void encodeExact(const TypeInfo& type, int64_t value, std::byte* out) {
  if (type.kind == Kind::Floating) return encodeElement(type, static_cast<double>(value), out);
  encodeInteger(type, value, out);
}

}  // namespace

std::vector<std::byte> ReducePattern::input(int rank) const {
  std::vector<std::byte> tile(kTileElements * type_.bytes);
  for (size_t i = 0; i < kTileElements; ++i) encodeExact(type_, value(rank, i), &tile[i * type_.bytes]);
  return tile;
}

void ReducePattern::makeExpected() {
  expected_.resize(kTileElements * type_.bytes);
  const bool logical = op_.kind == OpKind::Land || op_.kind == OpKind::Lor;
  for (size_t i = 0; i < kTileElements; ++i) {
    int64_t result = 0;
    for (int rank = 0; rank < nRanks_; ++rank) {
      int64_t v = value(rank, i);
      if (op_.kind == OpKind::MulSum) v *= scalarOf(rank);
      if (logical) v = v != 0;
      result = rank == 0 ? v : combine(op_.kind, result, v);
    }
    std::byte* out = &expected_[i * type_.bytes];
    if (op_.kind == OpKind::Avg && type_.kind == Kind::Floating) {
      encodeElement(type_, static_cast<double>(result) / nRanks_, out);
    } else {
      encodeExact(type_, op_.kind == OpKind::Avg ? result / nRanks_ : result, out);
    }
  }
}

}  // namespace tutti::perf
