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

#include "src/exec/reduce/simd-inl.hpp"
#include "src/exec/reduce/small_float.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

/// Elements of 8 or 16 bits as 32, and back (cutting).  Where the compiler takes such a conversion apart into scalars,
/// which GCC 12 does on x86, the instruction is named.
template <class Raw>
TUTTI_INLINE Vector<uint32_t> toWords(Raw raw) {
  using Words = Vector<uint32_t>;
#if defined(__x86_64__)
  constexpr bool kBytes = sizeof(raw[0]) == 1;
  if constexpr (kVectorBytes == 64 && kBytes) return (Words)_mm512_maskz_cvtepu8_epi32(0xffff, (__m128i)raw);
  if constexpr (kVectorBytes == 64 && !kBytes) return (Words)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)raw);
  if constexpr (kVectorBytes == 32 && kBytes) return (Words)_mm256_cvtepu8_epi32(_mm_set_epi64x(0, (long long)raw));
  if constexpr (kVectorBytes == 32 && !kBytes) return (Words)_mm256_cvtepu16_epi32((__m128i)raw);
#endif
  return __builtin_convertvector(raw, Words);
}

template <class Raw>
TUTTI_INLINE Raw fromWords(Vector<uint32_t> words) {
#if defined(__x86_64__)
  constexpr bool kBytes = sizeof(Raw{}[0]) == 1;
  if constexpr (kVectorBytes == 64 && kBytes) return (Raw)_mm512_maskz_cvtepi32_epi8(0xffff, as<__m512i>(words));
  if constexpr (kVectorBytes == 64 && !kBytes) return (Raw)_mm512_maskz_cvtepi32_epi16(0xffff, as<__m512i>(words));
  if constexpr (kVectorBytes == 32) {
    const __m256i halves =
        _mm256_packus_epi32(as<__m256i>(words), as<__m256i>(words));  // within each half of the register
    const __m128i shorts = _mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0x08));
    if constexpr (kBytes) return (Raw)_mm_cvtsi128_si64(_mm_packus_epi16(shorts, shorts));
    if constexpr (!kBytes) return (Raw)shorts;
  }
#endif
  return __builtin_convertvector(words, Raw);
}

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
#if defined(__x86_64__)
    if constexpr (F.bits == 8 && kVectorBytes >= 32) return widenByHalf(raw);
#endif
    const Bits x = toWords(raw);
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

#if defined(__x86_64__)
  /// Both 8-bit formats are float16 with bits missing, but for a factor of 2^8 in e4m3 and its NaN.
  static TUTTI_INLINE Acc widenByHalf(Raw raw) {
    using Shorts = Vector<uint16_t, kLanes * 2>;
    Shorts h;
    if constexpr (kVectorBytes == 64) h = (Shorts)_mm256_cvtepu8_epi16((__m128i)raw);
    if constexpr (kVectorBytes == 32) h = (Shorts)_mm_cvtepu8_epi16(_mm_set_epi64x(0, (long long)raw));
    if constexpr (F == kFloat8e5m2) return SmallFloatLane<kFloat16>::widen(h << 8);
    const Bits bits = (Bits)(SmallFloatLane<kFloat16>::widen(((h & 0x80) << 8) | ((h & 0x7f) << 7)) * 256.0f);
    const Bits nan = bits | 0x7f800000u;
    return (Acc)((bits & 0x7fffffffu) == 0x43f00000u ? nan : bits);  // 480 would be the value of the code of NaN
  }
#endif

  static TUTTI_INLINE Raw narrow(Acc value) {
#if defined(__x86_64__)
    if constexpr (F == kFloat16 && kVectorBytes == 64) {
      return (Raw)_mm512_maskz_cvtps_ph(0xffff, as<__m512>(value), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    if constexpr (F == kFloat16 && kVectorBytes == 32) {
      return (Raw)_mm256_cvtps_ph(as<__m256>(value), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
#endif
    const Bits all = (Bits)value;
    if constexpr (F == kBfloat16) {
      const Bits rounded = (all + 0x7fff + ((all >> 16) & 1)) >> 16;
      const Bits result = value != value ? (all >> 16) | 0x40 : rounded;
      return fromWords<Raw>(result);
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
    return fromWords<Raw>(result | sign);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // include guard, flipped for every instruction set
