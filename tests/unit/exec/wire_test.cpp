// Numbers packed for the wire: bounds of their errors, special values, rounding twice, and every instruction set alike.
#include "src/exec/reduce/wire.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "src/base/text.hpp"
#include "src/exec/reduce/simd_dispatch.hpp"
#include "src/exec/reduce/wire_kernels.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/exec/naive_reduce.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr WireFormat kNarrow[] = {WireFormat::Bf16, WireFormat::Fp8, WireFormat::Int8};
constexpr tuttiDataType_t kTypes[] = {tuttiFloat32, tuttiFloat16, tuttiBfloat16};

double largestOf(tuttiDataType_t dtype) {
  if (dtype == tuttiFloat16) return 65504;
  return dtype == tuttiBfloat16 ? 0x1.fep127 : std::numeric_limits<float>::max();
}

/// Numbers of a type in bytes of their own, `shift` off any alignment.
struct Numbers {
  Numbers(tuttiDataType_t type, size_t count, size_t shift)
      : dtype(type), n(count), at(shift), bytes(shift + count * dataTypeBytes(type) + 8, 0x5a) {}
  unsigned char* data() { return bytes.data() + at; }
  void set(size_t i, double value) { putValue(dtype, data() + i * dataTypeBytes(dtype), value); }
  double get(size_t i) {
    const unsigned char* from = data() + i * dataTypeBytes(dtype);
    float f;
    uint16_t half;
    if (dtype == tuttiFloat32) return std::memcpy(&f, from, sizeof f), double{f};
    return std::memcpy(&half, from, sizeof half), decode(formatOf(dtype), half);
  }
  bool guarded() const {
    return std::all_of(bytes.begin(), bytes.begin() + static_cast<long>(at),
                       [](unsigned char c) { return c == 0x5a; }) &&
           std::all_of(bytes.end() - 8, bytes.end(), [](unsigned char c) { return c == 0x5a; });
  }
  tuttiDataType_t dtype;
  size_t n, at;
  std::vector<unsigned char> bytes;
};

/// What wire.hpp allows y to be off, of x in a block whose largest finite number is m.
double bound(WireFormat format, double x, double m) {
  if (format == WireFormat::Bf16) return std::ldexp(std::fabs(x), -8) + 0x1p-134;
  if (format == WireFormat::Fp8) return std::ldexp(std::fabs(x), -4) + std::ldexp(m, -17) + 0x1p-135;
  return m / 125 + 0x1p-127;
}

/// What numbers of a vector are like.
enum class Kind { Even, Ranges, Tiny, Zeros, Huge, Special };

double draw(Kind kind, tuttiDataType_t dtype, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const double most = largestOf(dtype);
  switch (kind) {
    case Kind::Even: return normal(random);
    case Kind::Ranges:
      return std::clamp(std::ldexp(normal(random), below(dtype == tuttiFloat16 ? 30 : 200) - 20), -most, most);
    case Kind::Tiny: return std::ldexp(normal(random), dtype == tuttiFloat16 ? -24 : -126 - below(24));
    case Kind::Zeros: return below(2) == 0 ? -0.0 : 0.0;
    case Kind::Huge: return (below(2) == 0 ? 1 : -1) * most * (1 - below(4) * 0.01);
    case Kind::Special: break;
  }
  const int which = below(12);
  return which == 0 ? INFINITY : which == 1 ? -INFINITY : which == 2 ? NAN : normal(random) * 100;
}
constexpr Kind kKinds[] = {Kind::Even, Kind::Ranges, Kind::Tiny, Kind::Zeros, Kind::Huge, Kind::Special};

std::string complaint(WireFormat format, Numbers& before, Numbers& after) {
  for (size_t begin = 0; begin < before.n; begin += kWireBlock) {
    const size_t end = std::min(before.n, begin + kWireBlock);
    double m = 0;
    for (size_t i = begin; i < end; ++i) m = std::isfinite(before.get(i)) ? std::max(m, std::fabs(before.get(i))) : m;
    for (size_t i = begin; i < end; ++i) {
      const double x = before.get(i), y = after.get(i);
      bool good = std::isnan(x) ? std::isnan(y) : std::isinf(x) ? x == y : std::fabs(y - x) <= bound(format, x, m);
      // As any conversion to bfloat16.
      if (format == WireFormat::Bf16 && std::fabs(x) > 0x1.fefp127) good = y == std::copysign(INFINITY, x);
      if (!good) return cat("number ", i, " was ", x, " and is ", y, "; largest of its block ", m);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("packed numbers come back within the bound, infinities and NaN among them, from any count and alignment") {
  const uint64_t seed = GENERATE(range<uint64_t>(1, 9));
  std::mt19937_64 random(seed);
  for (const WireFormat format : kNarrow) {
    for (const tuttiDataType_t dtype : kTypes) {
      if (!isNarrower(format, dtype)) continue;
      for (const Kind kind : kKinds) {
        for (const size_t count : {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t(random() % 5000)}) {
          Numbers x(dtype, count, random() % 8), y(dtype, count, random() % 8);
          for (size_t i = 0; i < count; ++i) x.set(i, draw(kind, dtype, random));
          std::vector<std::byte> packed(wireBytes(format, count) + 1 + random() % 8, std::byte{0x5a});
          const size_t shift = packed.size() - wireBytes(format, count) - 1;
          CAPTURE(seed, wireFormatName(format), dataTypeName(dtype), static_cast<int>(kind), count);
          packWire(format, dtype, packed.data() + shift, x.data(), count);
          CHECK(packed.back() == std::byte{0x5a});
          unpackWire(format, dtype, y.data(), packed.data() + shift, count);
          CHECK(complaint(format, x, y) == "");
          CHECK(y.guarded());
          // Rounding in place gives the same, and so does rounding again.
          Numbers z = y;
          roundToWire(format, dtype, x.data(), count);
          CHECK(std::memcmp(x.data(), y.data(), count * dataTypeBytes(dtype)) == 0);
          roundToWire(format, dtype, z.data(), count);
          CHECK(std::memcmp(z.data(), y.data(), count * dataTypeBytes(dtype)) == 0);
          CHECK(z.guarded());
        }
      }
    }
  }
}

TEST_CASE(
    "blocks of float16 and bfloat16 with every value come back within the bound, and rounding twice is rounding once") {
  for (const WireFormat format : {WireFormat::Fp8, WireFormat::Int8}) {
    for (const tuttiDataType_t dtype : {tuttiFloat16, tuttiBfloat16}) {
      constexpr size_t kAll = 1 << 16;
      // In order, so that a block has numbers alike; and far from each other.
      for (const unsigned stride : {1u, 2053u}) {
        Numbers x(dtype, kAll, 0);
        for (unsigned i = 0; i < kAll; ++i) {
          const auto bits = static_cast<uint16_t>(i * stride);
          std::memcpy(x.data() + 2 * i, &bits, 2);
        }
        Numbers y = x;
        roundToWire(format, dtype, y.data(), kAll);
        CAPTURE(wireFormatName(format), dataTypeName(dtype), stride);
        CHECK(complaint(format, x, y) == "");
        Numbers z = y;
        roundToWire(format, dtype, z.data(), kAll);
        CHECK(z.bytes == y.bytes);
      }
    }
  }
}

TEST_CASE("all instruction sets pack the same bytes and unpack the same bits") {
#if TUTTI_HAVE_HIGHWAY && defined(__x86_64__)
  const SimdLevel best = simdLevel();
  std::mt19937_64 random(7);
  for (const WireFormat format : kNarrow) {
    for (const tuttiDataType_t dtype : kTypes) {
      if (!isNarrower(format, dtype)) continue;
      for (const Kind kind : kKinds) {
        constexpr size_t kCount = 1003;
        Numbers x(dtype, kCount, 0);
        for (size_t i = 0; i < kCount; ++i) x.set(i, draw(kind, dtype, random));
        std::vector<std::byte> expected;
        std::vector<unsigned char> bits;
        for (int level = 0; level <= static_cast<int>(best); ++level) {
          simdLevel() = static_cast<SimdLevel>(level);
          const WireKernels kernels = wireKernels(format, dtype);
          std::vector<std::byte> packed(wireBytes(format, kCount));
          Numbers y(dtype, kCount, 0);
          kernels.pack(packed.data(), reinterpret_cast<const std::byte*>(x.data()), kCount);
          kernels.unpack(reinterpret_cast<std::byte*>(y.data()), packed.data(), kCount);
          CAPTURE(wireFormatName(format), dataTypeName(dtype), static_cast<int>(kind), level);
          if (level > 0) CHECK(packed == expected);
          if (level > 0) CHECK(y.bytes == bits);
          expected = packed;
          bits = y.bytes;
        }
        simdLevel() = best;
      }
    }
  }
#endif
}

TEST_CASE("a format is narrower for some types only, and its bytes are what the formats say") {
  CHECK(wireBytes(WireFormat::Bf16, 1000) == 2000);
  CHECK(wireBytes(WireFormat::Int8, 0) == 0);
  CHECK(wireBytes(WireFormat::Int8, 1) == 2);
  CHECK(wireBytes(WireFormat::Fp8, 64) == 66);
  for (int t = 0; t < tuttiNumTypes; ++t) {
    const auto dtype = static_cast<tuttiDataType_t>(t);
    const bool single = dtype == tuttiFloat32, half = dtype == tuttiFloat16 || dtype == tuttiBfloat16;
    CAPTURE(dataTypeName(dtype));
    CHECK_FALSE(isNarrower(WireFormat::Full, dtype));
    CHECK(isNarrower(WireFormat::Bf16, dtype) == single);
    CHECK(isNarrower(WireFormat::Fp8, dtype) == (single || half));
    CHECK(isNarrower(WireFormat::Int8, dtype) == (single || half));
    for (const WireFormat format : kNarrow) {
      CHECK((wireKernels(format, dtype).pack != nullptr) == isNarrower(format, dtype));
      for (const size_t count : {1, 2, 31, 33})
        if (isNarrower(format, dtype)) CHECK(wireBytes(format, count) <= count * dataTypeBytes(dtype));
    }
  }
}
