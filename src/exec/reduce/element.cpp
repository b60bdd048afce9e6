// Single elements to and from double.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "src/exec/reduce/reduce.hpp"
#include "src/exec/reduce/small_float.hpp"

namespace tutti {
namespace {

float widen(const SmallFloat& f, uint32_t bits) {
  const uint32_t sign = (bits & f.signMask()) << (32 - f.bits);
  const uint32_t magnitude = bits & f.magnitudeMask();
  if (magnitude >= f.leastSpecial()) {
    return std::bit_cast<float>(sign | 0x7f800000u |
                                (f.infinities ? magnitude << (23 - f.mantissaBits) : f.nanPayloadMask() << 20));
  }
  // In double, where nothing of these formats is subnormal or rounds.
  const uint32_t exponent = magnitude >> f.mantissaBits;
  const uint32_t mantissa = magnitude & f.nanPayloadMask();
  const uint32_t whole = exponent == 0 ? mantissa : mantissa | f.leastNormal();
  const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - static_cast<int>(f.bias + f.mantissaBits);
  const double value = std::ldexp(static_cast<double>(whole), scale);
  return static_cast<float>(sign != 0 ? -value : value);
}

/// Rounds a double once: the value is cut into units of its last place, and those are rounded to even.
uint32_t narrow(const SmallFloat& f, double value) {
  const uint32_t sign = std::signbit(value) ? f.signMask() : 0;
  if (std::isnan(value)) return sign | f.nan();
  const double size = std::fabs(value);
  if (size == 0) return sign;
  if (std::isinf(size)) return sign | f.largest();
  const int least = 1 - static_cast<int>(f.bias);  // exponent of the least normal value
  const int exponent = std::max(std::ilogb(size), least);
  const double units = std::nearbyint(std::ldexp(size, static_cast<int>(f.mantissaBits) - exponent));
  // `units` has the hidden bit when normal; rounding up to the next power of two carries into the exponent by itself.
  const double magnitude = units + static_cast<double>(exponent - least) * f.leastNormal();
  return sign | (magnitude >= f.largest() ? f.largest() : static_cast<uint32_t>(magnitude));
}

const SmallFloat* smallFloat(tuttiDataType_t dtype) {
  switch (dtype) {
    case tuttiFloat16: return &kFloat16;
    case tuttiBfloat16: return &kBfloat16;
    case tuttiFloat8e4m3: return &kFloat8e4m3;
    case tuttiFloat8e5m2: return &kFloat8e5m2;
    default: return nullptr;
  }
}

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void store(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

uint32_t loadBits(const SmallFloat& f, const void* from) {
  return f.bits == 16 ? load<uint16_t>(from) : load<uint8_t>(from);
}
void storeBits(const SmallFloat& f, void* to, uint32_t bits) {
  if (f.bits == 16) {
    store(to, static_cast<uint16_t>(bits));
  } else {
    store(to, static_cast<uint8_t>(bits));
  }
}

/// f(T{}) for the type behind dtype; not for the small floats.
template <class F>
auto withNative(tuttiDataType_t dtype, F f) {
  switch (dtype) {
    case tuttiInt8: return f(int8_t{});
    case tuttiInt16: return f(int16_t{});
    case tuttiUint16: return f(uint16_t{});
    case tuttiInt32: return f(int32_t{});
    case tuttiUint32: return f(uint32_t{});
    case tuttiInt64: return f(int64_t{});
    case tuttiUint64: return f(uint64_t{});
    case tuttiFloat32: return f(float{});
    case tuttiFloat64: return f(double{});
    default: return f(uint8_t{});
  }
}

template <class T>
T saturate(double value) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value);
  if (std::isnan(value)) return 0;
  // 2^bits of the largest value + 1 is exact in double where the largest itself is not.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (value >= end) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

}  // namespace

double toDouble(tuttiDataType_t dtype, const void* element) {
  if (const SmallFloat* f = smallFloat(dtype)) return widen(*f, loadBits(*f, element));
  if (dtype == tuttiBool) return load<uint8_t>(element) != 0;
  return withNative(dtype, [&](auto zero) { return static_cast<double>(load<decltype(zero)>(element)); });
}

void fromDouble(tuttiDataType_t dtype, void* element, double value) {
  if (const SmallFloat* f = smallFloat(dtype)) return storeBits(*f, element, narrow(*f, value));
  if (dtype == tuttiBool) return store(element, static_cast<uint8_t>(value != 0));
  withNative(dtype, [&](auto zero) { store(element, saturate<decltype(zero)>(value)); });
}

}  // namespace tutti
