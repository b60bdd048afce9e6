// What reductions must give: element by element, in the plainest C++, with conversions made from tables of all values
// of a format.  Nothing here uses the code under test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "src/base/types.hpp"

namespace tutti::test {

// ---- Small floats, from the definition.

struct Format {
  int bits, mantissa, bias;
  bool infinities, saturates;
};
inline Format formatOf(tuttiDataType_t t) {
  switch (t) {
    case tuttiFloat16: return {16, 10, 15, true, false};
    case tuttiBfloat16: return {16, 7, 127, true, false};
    case tuttiFloat8e4m3: return {8, 3, 7, false, true};
    default: return {8, 2, 15, true, true};
  }
}
inline bool isSmallFloat(tuttiDataType_t t) { return isFloating(t) && dataTypeBytes(t) < 4; }

inline double decode(const Format& f, unsigned bits) {
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

inline const Encoder& encoderOf(tuttiDataType_t t) {
  static const Encoder all[] = {Encoder(formatOf(tuttiFloat16)), Encoder(formatOf(tuttiBfloat16)),
                                Encoder(formatOf(tuttiFloat8e4m3)), Encoder(formatOf(tuttiFloat8e5m2))};
  return all[t == tuttiFloat16 ? 0 : t == tuttiBfloat16 ? 1 : t == tuttiFloat8e4m3 ? 2 : 3];
}

// ---- Single elements.

template <class T>
T at(const void* data, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

/// f(T{}) for the type that elements are stored in.
template <class F>
auto withStored(tuttiDataType_t type, F f) {
  switch (type) {
    case tuttiInt8: return f(int8_t{});
    case tuttiInt16: return f(int16_t{});
    case tuttiUint16: return f(uint16_t{});
    case tuttiInt32: return f(int32_t{});
    case tuttiUint32: return f(uint32_t{});
    case tuttiInt64: return f(int64_t{});
    case tuttiUint64: return f(uint64_t{});
    case tuttiFloat32: return f(float{});
    case tuttiFloat64: return f(double{});
    default: return dataTypeBytes(type) == 2 ? f(uint16_t{}) : f(uint8_t{});
  }
}

inline double valueOf(tuttiDataType_t type, const void* element) {
  return withStored(type, [&](auto zero) {
    const auto stored = at<decltype(zero)>(element, 0);
    return isSmallFloat(type) ? decode(formatOf(type), static_cast<unsigned>(stored)) : static_cast<double>(stored);
  });
}

/// The nearest number of the type; integers cut the fraction off.  The value is one that the type has room for.
inline void putValue(tuttiDataType_t type, void* element, double value) {
  withStored(type, [&](auto zero) {
    using T = decltype(zero);
    const T stored = isSmallFloat(type) ? static_cast<T>(encoderOf(type)(value)) : static_cast<T>(value);
    std::memcpy(element, &stored, sizeof(T));
  });
}

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

inline bool combineBool(tuttiRedOp_t op, bool a, bool b) {
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
void naive(tuttiRedOp_t op, void* dst, const std::vector<const void*>& sources, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T value = at<T>(sources[0], i);
    for (size_t s = 1; s < sources.size(); ++s) value = combine<T>(op, value, at<T>(sources[s], i));
    std::memcpy(static_cast<char*>(dst) + i * sizeof(T), &value, sizeof(T));
  }
}

template <class Storage>
inline void naiveSmall(tuttiDataType_t type, tuttiRedOp_t op, void* dst, const std::vector<const void*>& sources,
                       size_t count) {
  const Encoder& encode = encoderOf(type);
  for (size_t i = 0; i < count; ++i) {
    auto value = static_cast<float>(decode(formatOf(type), at<Storage>(sources[0], i)));
    for (size_t s = 1; s < sources.size(); ++s) {
      value = combine<float>(op, value, static_cast<float>(decode(formatOf(type), at<Storage>(sources[s], i))));
    }
    const auto bits = static_cast<Storage>(encode(static_cast<double>(value)));
    std::memcpy(static_cast<char*>(dst) + i * sizeof(Storage), &bits, sizeof(Storage));
  }
}

inline void naiveReduce(tuttiDataType_t type, tuttiRedOp_t op, void* dst, const std::vector<const void*>& sources,
                        size_t count) {
  if (type != tuttiBool) {
    return withStored(type, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_unsigned_v<T> && sizeof(T) <= 2) {
        if (isSmallFloat(type)) return naiveSmall<T>(type, op, dst, sources, count);
      }
      naive<T>(op, dst, sources, count);
    });
  }
  for (size_t i = 0; i < count; ++i) {
    bool value = at<uint8_t>(sources[0], i) != 0;
    for (size_t s = 1; s < sources.size(); ++s) value = combineBool(op, value, at<uint8_t>(sources[s], i) != 0);
    static_cast<uint8_t*>(dst)[i] = value;
  }
}

// ---- Data and comparison.

/// The index of the first element that differs, or -1; all NaNs are one.
inline long firstDifference(tuttiDataType_t type, const void* a, const void* b, size_t count) {
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
inline void fill(tuttiDataType_t type, char* data, size_t count, std::mt19937_64& random) {
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

inline std::vector<tuttiDataType_t> allTypes() {
  std::vector<tuttiDataType_t> types;
  for (int t = 0; t < tuttiNumTypes; ++t) types.push_back(static_cast<tuttiDataType_t>(t));
  return types;
}
inline std::vector<tuttiRedOp_t> opsOf(tuttiDataType_t type) {
  std::vector<tuttiRedOp_t> ops;
  for (int op = 0; op < tuttiNumOps; ++op) {
    if (validOpForType(static_cast<tuttiRedOp_t>(op), type)) ops.push_back(static_cast<tuttiRedOp_t>(op));
  }
  return ops;
}

inline constexpr size_t kMost = 4099 * 8 + 128;

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

inline const std::vector<size_t> kCounts = {0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 1000, 4099};

}  // namespace tutti::test
