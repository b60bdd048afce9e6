// Every loop against a naive one: element by element, in the plainest C++, with conversions made from tables of all
// values of a format.  Nothing here uses the code under test but the calls being tested.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "src/exec/reduce.hpp"
#include "src/exec/reduce_kernels.hpp"
#if TUTTI_HAVE_HIGHWAY
#include <hwy/targets.h>
#endif

namespace {

using namespace tutti;

// ---- Small floats, from the definition.

struct Format {
  int bits, mantissa, bias;
  bool infinities, saturates;
};
Format formatOf(tuttiDataType_t t) {
  switch (t) {
    case tuttiFloat16: return {16, 10, 15, true, false};
    case tuttiBfloat16: return {16, 7, 127, true, false};
    case tuttiFloat8e4m3: return {8, 3, 7, false, true};
    default: return {8, 2, 15, true, true};
  }
}
bool isSmallFloat(tuttiDataType_t t) { return isFloating(t) && dataTypeBytes(t) < 4; }

double decode(const Format& f, unsigned bits) {
  const unsigned sign = bits >> (f.bits - 1);
  const unsigned exponents = 1u << (f.bits - 1 - f.mantissa);
  const unsigned exponent = (bits >> f.mantissa) % exponents;
  const unsigned mantissa = bits % (1u << f.mantissa);
  double value;
  if (exponent == exponents - 1 && f.infinities) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  } else if (!f.infinities && exponent == exponents - 1 && mantissa == (1u << f.mantissa) - 1) {
    value = std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - f.bias - f.mantissa);
  } else {
    value = std::ldexp((1u << f.mantissa) + mantissa, static_cast<int>(exponent) - f.bias - f.mantissa);
  }
  return sign != 0 ? -value : value;
}

/// Rounds to nearest by looking for the nearest.
class Encoder {
 public:
  explicit Encoder(const Format& f) : format_(f) {
    for (unsigned i = 0; i < 1u << (f.bits - 1); ++i) {
      const double value = decode(f, i);
      if (!std::isfinite(value)) break;
      finite_.push_back(value);
    }
  }
  unsigned operator()(double value) const {
    const unsigned sign = std::signbit(value) ? 1u << (format_.bits - 1) : 0;
    const double size = std::fabs(value);
    const auto last = static_cast<unsigned>(finite_.size() - 1);
    if (std::isnan(value)) return (1u << (format_.bits - 1)) - 1;  // one of the NaNs
    const auto above = std::lower_bound(finite_.begin(), finite_.end(), size);
    if (above == finite_.end()) {
      if (format_.saturates) return sign | last;
      const double step = finite_[last] - finite_[last - 1];
      return sign | (size >= finite_[last] + step / 2 ? last + 1 : last);
    }
    const auto high = static_cast<unsigned>(above - finite_.begin());
    if (*above == size) return sign | high;
    const double up = *above - size, down = size - finite_[high - 1];
    const bool roundUp = up < down || (up == down && high % 2 == 0);
    return sign | (roundUp ? high : high - 1);
  }

 private:
  Format format_;
  std::vector<double> finite_;
};

// ---- The naive reduction.

template <class T>
T combine(tuttiRedOp_t op, T a, T b) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  if constexpr (kFloat) {
    if (op == tuttiMax || op == tuttiMin) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
      if (a == 0 && b == 0) return (op == tuttiMax) == std::signbit(a) ? b : a;
    }
    if (op == tuttiSum || op == tuttiAvg) return a + b;
    if (op == tuttiProd) return a * b;
  } else {
    using U = uint64_t;
    if (op == tuttiSum || op == tuttiAvg) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    if (op == tuttiProd) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    if (op == tuttiBand) return static_cast<T>(a & b);
    if (op == tuttiBor) return static_cast<T>(a | b);
    if (op == tuttiBxor) return static_cast<T>(a ^ b);
  }
  if (op == tuttiMax) return a > b ? a : b;
  if (op == tuttiMin) return a < b ? a : b;
  if (op == tuttiLand) return static_cast<T>(a != 0 && b != 0);
  return static_cast<T>(a != 0 || b != 0);
}

bool combineBool(tuttiRedOp_t op, bool a, bool b) {
  switch (op) {
    case tuttiSum:
    case tuttiMax:
    case tuttiBor:
    case tuttiLor: return a || b;
    case tuttiBxor: return a != b;
    default: return a && b;
  }
}

template <class T>
T at(const void* data, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void naive(tuttiRedOp_t op, void* dst, const std::vector<const void*>& sources, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T value = at<T>(sources[0], i);
    for (size_t s = 1; s < sources.size(); ++s) value = combine<T>(op, value, at<T>(sources[s], i));
    std::memcpy(static_cast<char*>(dst) + i * sizeof(T), &value, sizeof(T));
  }
}

template <class Storage>
void naiveSmall(tuttiDataType_t type, tuttiRedOp_t op, void* dst, const std::vector<const void*>& sources,
                size_t count) {
  const Encoder encode(formatOf(type));
  for (size_t i = 0; i < count; ++i) {
    auto value = static_cast<float>(decode(formatOf(type), at<Storage>(sources[0], i)));
    for (size_t s = 1; s < sources.size(); ++s) {
      value = combine<float>(op, value, static_cast<float>(decode(formatOf(type), at<Storage>(sources[s], i))));
    }
    const auto bits = static_cast<Storage>(encode(static_cast<double>(value)));
    std::memcpy(static_cast<char*>(dst) + i * sizeof(Storage), &bits, sizeof(Storage));
  }
}

void naiveReduce(tuttiDataType_t type, tuttiRedOp_t op, void* dst, const std::vector<const void*>& sources,
                 size_t count) {
  switch (type) {
    case tuttiInt8: return naive<int8_t>(op, dst, sources, count);
    case tuttiUint8: return naive<uint8_t>(op, dst, sources, count);
    case tuttiInt16: return naive<int16_t>(op, dst, sources, count);
    case tuttiUint16: return naive<uint16_t>(op, dst, sources, count);
    case tuttiInt32: return naive<int32_t>(op, dst, sources, count);
    case tuttiUint32: return naive<uint32_t>(op, dst, sources, count);
    case tuttiInt64: return naive<int64_t>(op, dst, sources, count);
    case tuttiUint64: return naive<uint64_t>(op, dst, sources, count);
    case tuttiFloat32: return naive<float>(op, dst, sources, count);
    case tuttiFloat64: return naive<double>(op, dst, sources, count);
    case tuttiFloat16:
    case tuttiBfloat16: return naiveSmall<uint16_t>(type, op, dst, sources, count);
    case tuttiBool: break;
    default: return naiveSmall<uint8_t>(type, op, dst, sources, count);
  }
  for (size_t i = 0; i < count; ++i) {
    bool value = at<uint8_t>(sources[0], i) != 0;
    for (size_t s = 1; s < sources.size(); ++s) value = combineBool(op, value, at<uint8_t>(sources[s], i) != 0);
    static_cast<uint8_t*>(dst)[i] = value;
  }
}

// ---- Data and comparison.

double valueOf(tuttiDataType_t type, const void* element) {
  if (type == tuttiFloat32) return static_cast<double>(at<float>(element, 0));
  if (type == tuttiFloat64) return at<double>(element, 0);
  if (!isSmallFloat(type)) return 0;
  return decode(formatOf(type), dataTypeBytes(type) == 2 ? at<uint16_t>(element, 0) : at<uint8_t>(element, 0));
}

/// The index of the first element that differs, or -1; all NaNs are one.
long firstDifference(tuttiDataType_t type, const void* a, const void* b, size_t count) {
  const size_t bytes = dataTypeBytes(type);
  if (std::memcmp(a, b, count * bytes) == 0) return -1;
  for (size_t i = 0; i < count; ++i) {
    const char* x = static_cast<const char*>(a) + i * bytes;
    const char* y = static_cast<const char*>(b) + i * bytes;
    if (std::memcmp(x, y, bytes) == 0) continue;
    if (isFloating(type) && std::isnan(valueOf(type, x)) && std::isnan(valueOf(type, y))) continue;
    return static_cast<long>(i);
  }
  return -1;
}

/// Random bits are good test values for every type but float and double, where almost none are ordinary.
void fill(tuttiDataType_t type, char* data, size_t count, std::mt19937_64& random) {
  for (size_t i = 0; i < count * dataTypeBytes(type); ++i) data[i] = static_cast<char>(random());
  if (type == tuttiBool) {
    for (size_t i = 0; i < count; ++i) data[i] = static_cast<char>(random() % 3);
  }
  if (type != tuttiFloat32 && type != tuttiFloat64) return;
  const double special[] = {0.0, -0.0, std::nan(""), INFINITY, -INFINITY, 1e-310, 1e-40, 3e38, -3e38};
  for (size_t i = 0; i < count; ++i) {
    const double ordinary = static_cast<double>(static_cast<int64_t>(random())) * 0x1p-60;
    const double value = random() % 16 == 0 ? special[random() % 9] : ordinary;
    if (type == tuttiFloat64) {
      std::memcpy(data + i * 8, &value, 8);
    } else {
      const auto narrow = static_cast<float>(value);
      std::memcpy(data + i * 4, &narrow, 4);
    }
  }
}

std::vector<tuttiDataType_t> allTypes() {
  std::vector<tuttiDataType_t> types;
  for (int t = 0; t < tuttiNumTypes; ++t) types.push_back(static_cast<tuttiDataType_t>(t));
  return types;
}
std::vector<tuttiRedOp_t> opsOf(tuttiDataType_t type) {
  std::vector<tuttiRedOp_t> ops;
  for (int op = 0; op < tuttiNumOps; ++op) {
    if (validOpForType(static_cast<tuttiRedOp_t>(op), type)) ops.push_back(static_cast<tuttiRedOp_t>(op));
  }
  return ops;
}

constexpr size_t kMost = 4099 * 8 + 128;

/// Operands of one type: 17 of the largest size, then results.
struct Operands {
  explicit Operands(tuttiDataType_t type) : data(17, std::vector<char>(kMost)), got(kMost), want(kMost) {
    std::mt19937_64 random(static_cast<unsigned>(type) + 1);
    for (auto& source : data) fill(type, source.data(), (kMost - 64) / dataTypeBytes(type), random);
  }
  /// Source s at `offset` bytes from an aligned address.
  std::vector<const void*> sources(size_t n, size_t offset) {
    std::vector<const void*> out;
    shifted.resize(n);
    for (size_t s = 0; s < n; ++s) {
      const size_t at = (offset * (s + 1)) % 64;
      shifted[s].assign(kMost + 64, 0);
      std::memcpy(shifted[s].data() + at, data[s].data(), kMost - 64);
      out.push_back(shifted[s].data() + at);
    }
    return out;
  }
  std::vector<std::vector<char>> data;
  std::vector<std::vector<char>> shifted;
  std::vector<char> got, want;
};

const std::vector<size_t> kCounts = {0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 1000, 4099};

}  // namespace

TEST_CASE("every type, operator, number of sources, count and alignment reduces as the naive loop does") {
  for (const tuttiDataType_t type : allTypes()) {
    DYNAMIC_SECTION(dataTypeName(type)) {
      Operands operands(type);
      for (const size_t nSources : {2, 3, 5, 8, 17}) {
        for (const size_t offset : {size_t{0}, dataTypeBytes(type), size_t{13}}) {
          const auto sources = operands.sources(nSources, offset);
          for (const tuttiRedOp_t op : opsOf(type)) {
            naiveReduce(type, op, operands.want.data(), sources, kCounts.back());
            for (const size_t count : kCounts) {
              char* got = operands.got.data() + offset;
              std::fill(operands.got.begin(), operands.got.end(), char{0x5a});
              if (nSources == 2 && count % 2 == 1) {
                reducePair({.dtype = type, .op = op}, got, sources[0], sources[1], count);
              } else {
                // A large whole makes it store past the cache.
                const size_t whole = offset != 0 || count % 2 == 0 ? size_t{1} << 40 : 0;
                reduceMany({.dtype = type, .op = op}, got, sources, count, whole);
              }
              const long bad = firstDifference(type, got, operands.want.data(), count);
              const bool beyond = got[count * dataTypeBytes(type)] != 0x5a || (offset > 0 && got[-1] != 0x5a);
              if (bad >= 0 || beyond) {
                CAPTURE(redOpName(op), nSources, offset, count, bad, beyond);
                FAIL_CHECK("differs from the naive loop");
              }
            }
          }
        }
      }
    }
  }
}

#if TUTTI_HAVE_HIGHWAY
TEST_CASE("every instruction set of this machine gives what the naive loop does") {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const tuttiDataType_t type : allTypes()) {
      const TypeKernels kernels = findKernels(type);
      Operands operands(type);
      const auto sources = operands.sources(3, 1);
      const auto* from = reinterpret_cast<const std::byte* const*>(sources.data());
      for (const tuttiRedOp_t op : opsOf(type)) {
        naiveReduce(type, op, operands.want.data(), sources, 1003);
        for (const bool stream : {false, true}) {
          kernels.reduce[op](reinterpret_cast<std::byte*>(operands.got.data()), from, 3, 1003, stream);
          CAPTURE(hwy::TargetName(target), dataTypeName(type), redOpName(op), stream);
          CHECK(firstDifference(type, operands.got.data(), operands.want.data(), 1003) == -1);
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}
#endif

TEST_CASE("dst may be any one of the sources") {
  for (const tuttiDataType_t type : allTypes()) {
    Operands operands(type);
    const size_t count = 1000;
    for (const size_t nSources : {1, 2, 5}) {
      for (size_t s = 0; s < nSources; ++s) {
        const auto sources = operands.sources(nSources, 3);
        naiveReduce(type, tuttiSum, operands.want.data(), sources, count);
        if (nSources == 1) std::memcpy(operands.want.data(), sources[0], count * dataTypeBytes(type));
        void* dst = const_cast<void*>(sources[s]);
        reduceMany({.dtype = type}, dst, sources, count, size_t{1} << 40);
        CAPTURE(dataTypeName(type), nSources, s);
        CHECK(firstDifference(type, dst, operands.want.data(), count) == -1);
      }
    }
  }
}

TEST_CASE("all values of the small floats pass through double, and through a reduction with zero") {
  for (const tuttiDataType_t type : {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2}) {
    const Format f = formatOf(type);
    const size_t bytes = dataTypeBytes(type);
    const size_t all = size_t{1} << f.bits;
    std::vector<char> values(all * bytes), zeros(all * bytes), sums(all * bytes);
    for (size_t i = 0; i < all; ++i) {
      std::memcpy(values.data() + i * bytes, &i, bytes);  // little endian
      const size_t negativeZero = all / 2;                // x + -0 is x for every x, -0 too
      std::memcpy(zeros.data() + i * bytes, &negativeZero, bytes);
    }
    reducePair({.dtype = type}, sums.data(), values.data(), zeros.data(), all);
    size_t wrong = 0;
    for (size_t i = 0; i < all; ++i) {
      const double value = decode(f, static_cast<unsigned>(i));
      const char* element = values.data() + i * bytes;
      const double read = toDouble(type, element);
      if (std::isnan(value) ? !std::isnan(read) : read != value || std::signbit(read) != std::signbit(value)) ++wrong;
      uint16_t back = 0;
      fromDouble(type, &back, read);
      const unsigned expected =
          std::isinf(value) && f.saturates ? static_cast<unsigned>(i) - 1 : static_cast<unsigned>(i);
      const double sum = decode(f, bytes == 2 ? at<uint16_t>(sums.data(), i) : at<uint8_t>(sums.data(), i));
      if (std::isnan(value)) {
        if (!std::isnan(decode(f, back)) || !std::isnan(sum)) ++wrong;
      } else if (back != expected || sum != decode(f, expected)) {
        ++wrong;
      }
    }
    CAPTURE(dataTypeName(type));
    CHECK(wrong == 0);
  }
}

TEST_CASE("rounding is to nearest even, once, and float8 saturates") {
  struct Row {
    tuttiDataType_t type;
    double value, expected;
  };
  const double kInfinity = INFINITY;
  const Row rows[] = {
      {tuttiFloat16, 2049, 2048},          {tuttiFloat16, 2051, 2052},
      {tuttiFloat16, 65519, 65504},        {tuttiFloat16, 65520, kInfinity},
      {tuttiFloat16, 0x1p-25, 0},          {tuttiFloat16, 0x1.8p-24, 0x1p-23},
      {tuttiFloat16, 2049 + 1e-9, 2050},  // as a float first, it would be the tie 2049 and become 2048
      {tuttiBfloat16, 257, 256},           {tuttiBfloat16, 259, 260},
      {tuttiBfloat16, 3.4e38, kInfinity},  {tuttiBfloat16, 0x1.8p-133, 0x1p-132},
      {tuttiFloat8e4m3, 17, 16},           {tuttiFloat8e4m3, 19, 20},
      {tuttiFloat8e4m3, 464, 448},         {tuttiFloat8e4m3, 1e9, 448},
      {tuttiFloat8e4m3, -kInfinity, -448}, {tuttiFloat8e4m3, 0x1p-10, 0},
      {tuttiFloat8e4m3, 0x1.8p-9, 0x1p-8}, {tuttiFloat8e5m2, 9, 8},
      {tuttiFloat8e5m2, 11, 12},           {tuttiFloat8e5m2, 61440, 57344},
      {tuttiFloat8e5m2, kInfinity, 57344}, {tuttiFloat8e5m2, 0x1p-17, 0},
  };
  for (const Row& row : rows) {
    uint16_t element = 0;
    fromDouble(row.type, &element, row.value);
    CAPTURE(dataTypeName(row.type), row.value);
    CHECK(toDouble(row.type, &element) == row.expected);
  }
}

TEST_CASE("several sources of a small float are rounded once, not once per source") {
  // 2048 + 1 + 1: pairwise in float16 each 1 is lost to a tie; in float they add up.
  for (const size_t count : {1, 40}) {
    std::vector<uint16_t> large(count), one(count), result(count);
    for (size_t i = 0; i < count; ++i) {
      fromDouble(tuttiFloat16, &large[i], 2048);
      fromDouble(tuttiFloat16, &one[i], 1);
    }
    const std::vector<const void*> sources = {large.data(), one.data(), one.data()};
    reduceMany({.dtype = tuttiFloat16}, result.data(), sources, count);
    CHECK(toDouble(tuttiFloat16, &result[count - 1]) == 2050);
  }
}

TEST_CASE("fromDouble to integers cuts and saturates") {
  struct Row {
    tuttiDataType_t type;
    double value, expected;
  };
  for (const Row& row : {Row{tuttiInt8, 127.9, 127}, Row{tuttiInt8, 1e9, 127}, Row{tuttiInt8, -1e9, -128},
                         Row{tuttiUint8, -1, 0}, Row{tuttiInt32, -2.5, -2}, Row{tuttiInt64, 1e30, 0x1p63},
                         Row{tuttiUint64, 1e30, 0x1p64}, Row{tuttiUint16, NAN, 0}, Row{tuttiBool, 0.5, 1}}) {
    uint64_t element = 0;
    fromDouble(row.type, &element, row.value);
    CAPTURE(dataTypeName(row.type), row.value);
    CHECK(toDouble(row.type, &element) == row.expected);
  }
}

TEST_CASE("divide rounds integers toward zero, floats once, and leaves bool") {
  for (const int divisor : {1, 2, 3, 7, 300, 65537}) {
    for (const tuttiDataType_t type : allTypes()) {
      Operands operands(type);
      const size_t bytes = dataTypeBytes(type);
      const size_t count = 131;
      auto data = std::vector<char>(operands.data[0].begin(), operands.data[0].begin() + 8 * 140);
      char* misaligned = data.data() + 1;
      std::memcpy(misaligned, operands.data[0].data(), count * bytes);
      divide(type, misaligned, divisor, count);
      size_t wrong = 0;
      for (size_t i = 0; i < count; ++i) {
        const char* before = operands.data[0].data() + i * bytes;
        const char* after = misaligned + i * bytes;
        if (type == tuttiInt64) {
          wrong += at<int64_t>(after, 0) != at<int64_t>(before, 0) / divisor;
        } else if (type == tuttiUint64) {
          wrong += at<uint64_t>(after, 0) != at<uint64_t>(before, 0) / static_cast<unsigned>(divisor);
        } else if (type == tuttiFloat64) {
          const double want = at<double>(before, 0) / divisor;
          wrong += std::isnan(want) ? !std::isnan(at<double>(after, 0)) : at<double>(after, 0) != want;
        } else if (isFloating(type)) {
          const float quotient = static_cast<float>(toDouble(type, before)) / static_cast<float>(divisor);
          uint64_t want = 0;
          fromDouble(type, &want,
                     static_cast<double>(divisor == 1 ? static_cast<float>(toDouble(type, before)) : quotient));
          if (divisor != 1) wrong += firstDifference(type, after, &want, 1) != -1;
        } else if (type == tuttiBool) {
          wrong += *after != *before;
        } else {
          wrong += toDouble(type, after) != std::trunc(toDouble(type, before) / divisor);
        }
      }
      CAPTURE(dataTypeName(type), divisor);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("scale multiplies by one element, in place too") {
  for (const tuttiDataType_t type : allTypes()) {
    Operands operands(type);
    const size_t bytes = dataTypeBytes(type);
    for (const size_t count : {0, 1, 3, 64, 131}) {
      std::vector<char> scalars(count * bytes + 8), data(count * bytes + 9);
      uint64_t scalar = 0;
      fromDouble(type, &scalar, 3);
      for (size_t i = 0; i < count; ++i) std::memcpy(scalars.data() + i * bytes, &scalar, bytes);
      naiveReduce(type, tuttiProd, operands.want.data(), {operands.data[0].data(), scalars.data()}, count);
      scale(type, data.data() + 1, operands.data[0].data(), &scalar, count);
      CAPTURE(dataTypeName(type), count);
      CHECK(firstDifference(type, data.data() + 1, operands.want.data(), count) == -1);
      std::memcpy(data.data() + 1, operands.data[0].data(), count * bytes);
      scale(type, data.data() + 1, data.data() + 1, &scalar, count);
      CHECK(firstDifference(type, data.data() + 1, operands.want.data(), count) == -1);
    }
  }
}

namespace {
/// Not commutative: lower * 10 + higher, modulo 2^32.  Counts its calls' elements in the context.
void decimal(const void* in, void* inout, size_t count, tuttiDataType_t, void* context) {
  auto* higher = static_cast<uint32_t*>(inout);
  const auto* lower = static_cast<const uint32_t*>(in);
  for (size_t i = 0; i < count; ++i) higher[i] = lower[i] * 10 + higher[i];
  *static_cast<size_t*>(context) += count;
}
}  // namespace

TEST_CASE("a user's operator gets lower ranks first, aligned, whatever dst is") {
  for (const size_t count : {1, 1000, 3000}) {
    for (const int dst : {-1, 0, 1, 2}) {
      size_t elements = 0;
      const Reduction r = {.dtype = tuttiUint32, .function = decimal, .context = &elements};
      std::vector<std::vector<char>> data(3, std::vector<char>(count * 4 + 1));
      for (uint32_t s = 0; s < 3; ++s) {
        const uint32_t digit = s + 1;
        for (size_t i = 0; i < count; ++i) std::memcpy(data[s].data() + 1 + i * 4, &digit, 4);
      }
      std::vector<char> result(count * 4 + 1);
      void* to = dst < 0 ? result.data() + 1 : data[static_cast<size_t>(dst)].data() + 1;
      const std::vector<const void*> sources = {data[0].data() + 1, data[1].data() + 1, data[2].data() + 1};
      reduceMany(r, to, sources, count);
      CAPTURE(count, dst);
      CHECK(at<uint32_t>(to, 0) == 123);
      CHECK(at<uint32_t>(to, count - 1) == 123);
      CHECK(elements == 2 * count);
    }
  }
  size_t elements = 0;
  const Reduction r = {.dtype = tuttiUint32, .function = decimal, .context = &elements};
  std::vector<uint32_t> a(10, 1), b(10, 2), c(10);
  reducePair(r, b.data(), a.data(), b.data(), 10);
  CHECK(b[9] == 12);
  reducePair(r, c.data(), a.data(), b.data(), 10);
  CHECK(c[9] == 22);
  reducePair(r, a.data(), a.data(), b.data(), 10);
  CHECK(a[9] == 22);
  reducePair(r, a.data(), a.data(), a.data(), 10);
  CHECK(a[9] == 242);
}

TEST_CASE("copies of every size and alignment are whole and touch nothing else") {
  std::mt19937_64 random(7);
  std::vector<char> from(3 << 20), to(3 << 20);
  for (char& c : from) c = static_cast<char>(random());
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, size_t{4097}, size_t{70001}, size_t{3} << 19}) {
    for (const size_t offset : {0, 1, 63}) {
      for (const size_t whole : {bytes, size_t{1} << 40}) {
        std::fill(to.begin(), to.end(), char{1});
        copyPiece(to.data() + offset, from.data() + offset / 2, bytes, whole);
        CAPTURE(bytes, offset, whole);
        CHECK(std::memcmp(to.data() + offset, from.data() + offset / 2, bytes) == 0);
        CHECK((offset == 0 || to[offset - 1] == 1));
        CHECK(to[offset + bytes] == 1);
      }
    }
  }
  copyBytes(to.data(), from.data(), to.size());
  CHECK(to == from);
}
