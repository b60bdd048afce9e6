// The four floating formats of 16 and 8 bits, as numbers.
// Source: IEEE 754-2019 (binary16); OCP 8-bit floating point specification 1.0, sections 4 and 5 (E4M3, E5M2 and the
// saturating conversion, which is also what CUDA's __NV_SATFINITE does).
#pragma once

#include <cstdint>

namespace tutti {

/// sign 1 | exponent | mantissa, from the high bit down.  Plain numbers, usable as a template argument.
struct SmallFloat {
  uint32_t bits;          // of an element
  uint32_t mantissaBits;  // stored ones
  uint32_t bias;
  bool infinities;  // values with the highest exponent are infinities and NaNs; false: only all ones is NaN
  bool saturates;   // what is too large becomes the largest finite value rather than infinity

  constexpr bool operator==(const SmallFloat&) const = default;
  constexpr uint32_t signMask() const { return 1u << (bits - 1); }
  constexpr uint32_t magnitudeMask() const { return signMask() - 1; }
  constexpr uint32_t leastNormal() const { return 1u << mantissaBits; }
  /// The least magnitude that is infinite or NaN.
  constexpr uint32_t leastSpecial() const {
    return infinities ? magnitudeMask() & ~(leastNormal() - 1) : magnitudeMask();
  }
  /// Where results end: infinity, or the largest finite value.
  constexpr uint32_t largest() const { return saturates ? leastSpecial() - 1 : leastSpecial(); }
  constexpr uint32_t nan() const { return infinities ? leastSpecial() | (1u << (mantissaBits - 1)) : magnitudeMask(); }
  constexpr uint32_t nanPayloadMask() const { return leastNormal() - 1; }
  /// As a float: the least normal value, 2^(1 - bias).
  constexpr uint32_t minNormalBits() const { return (127 + 1 - bias) << 23; }
  /// As a float: 2^(1 - bias + 23 - mantissaBits), whose last bit weighs what our last subnormal bit does.
  constexpr uint32_t subnormalMagicBits() const { return (127 + 1 - bias + 23 - mantissaBits) << 23; }
};

inline constexpr SmallFloat kFloat16 = {16, 10, 15, true, false};
inline constexpr SmallFloat kBfloat16 = {16, 7, 127, true, false};
inline constexpr SmallFloat kFloat8e4m3 = {8, 3, 7, false, true};
inline constexpr SmallFloat kFloat8e5m2 = {8, 2, 15, true, true};

template <uint32_t bits>
struct SmallFloatStorage {
  using Type = uint16_t;
};
template <>
struct SmallFloatStorage<8> {
  using Type = uint8_t;
};

}  // namespace tutti
