// Floats of 16 and 8 bits: widened to float in registers, rounded to nearest even on the way out.
//
// One pair of conversions, made of integer operations on vectors, serves all four formats; F16C does float16 where
// there is such an instruction.  No step has a denormal float as operand: those cost microcode assists, and small
// values of 8-bit formats are common.
#if defined(TUTTI_EXEC_SMALLFLOAT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_EXEC_SMALLFLOAT_INL_HPP
#undef TUTTI_EXEC_SMALLFLOAT_INL_HPP
#else
#define TUTTI_EXEC_SMALLFLOAT_INL_HPP
#endif

#include "src/exec/simd-inl.hpp"
#include "src/exec/small_float.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

template <SmallFloat F>
struct SmallFloatLane {
  using Acc = Vector<float>;
  using Bits = Vector<uint32_t>;
  static constexpr size_t kLanes = kVectorBytes / 4;
  static constexpr size_t kElementBytes = F.bits / 8;
  using Raw = Vector<typename SmallFloatStorage<F.bits>::Type, kLanes * kElementBytes>;

  static TUTTI_INLINE Acc widen(Raw raw) {
#if defined(__x86_64__)
    if constexpr (F == kFloat16 && kVectorBytes == 64) return (Acc)_mm512_maskz_cvtph_ps(0xffff, (__m256i)raw);
    if constexpr (F == kFloat16 && kVectorBytes == 32) return (Acc)_mm256_cvtph_ps((__m128i)raw);
#endif
    const Bits x = __builtin_convertvector(raw, Bits);
    if constexpr (F == kBfloat16) return (Acc)(x << 16);
    const Bits sign = (x & F.signMask()) << (32 - F.bits);
    const Bits magnitude = x & F.magnitudeMask();
    constexpr uint32_t kShift = 23 - F.mantissaBits;
    const Bits normal = (magnitude << kShift) + ((127 - F.bias) << 23);
    // A subnormal is normal with the next exponent, less that exponent's one.
    const Bits oneUp = normal + (1u << 23);
    const Bits subnormal = (Bits)((Acc)oneUp - (Acc)(Bits{} + F.minNormalBits()));
    Bits bits = magnitude < F.leastNormal() ? subnormal : normal;
    const Bits special = (magnitude << kShift) | 0x7f800000u;
    bits = magnitude >= F.leastSpecial() ? special : bits;
    return (Acc)(bits | sign);
  }

  static TUTTI_INLINE Raw narrow(Acc value) {
#if defined(__x86_64__)
    if constexpr (F == kFloat16 && kVectorBytes == 64) {
      return (Raw)_mm512_maskz_cvtps_ph(0xffff, (__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    if constexpr (F == kFloat16 && kVectorBytes == 32) {
      return (Raw)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
#endif
    const Bits all = (Bits)value;
    if constexpr (F == kBfloat16) {
      const Bits rounded = (all + 0x7fff + ((all >> 16) & 1)) >> 16;
      const Bits result = value != value ? (all >> 16) | 0x40 : rounded;
      return __builtin_convertvector(result, Raw);
    }
    constexpr uint32_t kShift = 23 - F.mantissaBits;
    const Bits x = all & 0x7fffffffu;
    const Bits sign = (all >> (32 - F.bits)) & F.signMask();
    const Bits normal = (x + ((1u << (kShift - 1)) - 1) + ((x >> kShift) & 1) - ((127 - F.bias) << 23)) >> kShift;
    // Adding a float whose last bit weighs what the format's least subnormal does rounds there, in hardware.
    const Bits magic = Bits{} + F.subnormalMagicBits();
    const Bits subnormal = (Bits)((Acc)x + (Acc)magic) - magic;
    Bits result = x < F.minNormalBits() ? subnormal : normal;
    result = result > F.largest() ? Bits{} + F.largest() : result;
    const Bits nan = F.nan() | ((x >> kShift) & F.nanPayloadMask());
    result = x > 0x7f800000u ? nan : result;
    return __builtin_convertvector(result | sign, Raw);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // include guard, flipped for every instruction set
