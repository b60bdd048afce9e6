// How elements are read into what they are combined in, and back: 16-bit and 8-bit floats in float, the rest as they
// are.  The same text on host and device; it gives the bits that src/exec/reduce/reduce.hpp promises.
#pragma once

#include "src/exec/kernels/team.hpp"
#include "src/exec/reduce/small_float.hpp"

namespace tutti::kernels {

TUTTI_HD uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
TUTTI_HD float floatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// Integers, float and double: combined as what they are.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static TUTTI_HD Value widen(Stored x) { return x; }
  static TUTTI_HD Stored narrow(Value x) { return x; }
};

/// Bool: any nonzero byte is true.
struct Truth {
  using Stored = uint8_t;
  using Value = uint8_t;
  static TUTTI_HD Value widen(Stored x) { return x != 0; }
  static TUTTI_HD Stored narrow(Value x) { return x; }
};

template <const SmallFloat& F>
struct Small {
  using Stored = typename SmallFloatStorage<F.bits>::Type;
  using Value = float;

  static TUTTI_HD float widen(Stored stored) {
    const uint32_t x = stored;
    if (F.bits - F.mantissaBits == 9) return floatOf(x << 16);  // bfloat16 is the upper half of a float
    const uint32_t sign = (x & F.signMask()) << (32 - F.bits);
    const uint32_t magnitude = x & F.magnitudeMask();
    constexpr uint32_t kShift = 23 - F.mantissaBits;
    uint32_t bits = (magnitude << kShift) + ((127 - F.bias) << 23);
    if (magnitude >= F.leastSpecial()) {
      bits = (magnitude << kShift) | 0x7f800000u;
    } else if (magnitude < F.leastNormal()) {
      // A subnormal is normal with the next exponent, less that exponent's one.
      bits = bitsOf(floatOf(bits + (1u << 23)) - floatOf(F.minNormalBits()));
    }
    return floatOf(bits | sign);
  }

  /// Rounds to nearest, ties to even.
  static TUTTI_HD Stored narrow(float value) {
    const uint32_t all = bitsOf(value);
    const uint32_t x = all & 0x7fffffffu;
    if (F.bits - F.mantissaBits == 9) {
      return static_cast<Stored>(x > 0x7f800000u ? (all >> 16) | 0x40 : (all + 0x7fff + ((all >> 16) & 1)) >> 16);
    }
    constexpr uint32_t kShift = 23 - F.mantissaBits;
    const uint32_t sign = (all >> (32 - F.bits)) & F.signMask();
    if (x > 0x7f800000u) return static_cast<Stored>(sign | F.nan() | ((x >> kShift) & F.nanPayloadMask()));
    uint32_t result;
    if (x < F.minNormalBits()) {
      // Adding a float whose last bit weighs what the format's least subnormal does rounds there, in hardware.
      result = bitsOf(floatOf(x) + floatOf(F.subnormalMagicBits())) - F.subnormalMagicBits();
    } else {
      result = (x + ((1u << (kShift - 1)) - 1) + ((x >> kShift) & 1) - ((127 - F.bias) << 23)) >> kShift;
    }
    return static_cast<Stored>(sign | (result > F.largest() ? F.largest() : result));
  }
};

}  // namespace tutti::kernels
