// Packing for the wire and back, on vectors.
#include "src/exec/reduce/simd_dispatch.hpp"
#include "src/exec/reduce/simd_foreach.hpp"
#include "src/exec/reduce/wire_kernels.hpp"
#if TUTTI_HAVE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/exec/reduce/wire_loops.cpp"
#include <hwy/foreach_target.h>
#endif
#include "src/exec/reduce/smallfloat-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

using Floats = Vector<float>;
using Words = Vector<int32_t>;  // magnitudes have no sign, so they compare as these, for which there are instructions
inline constexpr size_t kFloats = kVectorBytes / sizeof(float);
inline constexpr size_t kVectorsOfBlock = kWireBlock / kFloats;
inline constexpr int32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
using Codes = Vector<uint8_t, kFloats>;  // as many as there are floats

/// The largest number of a type, as the bits of a float.
template <class Lane>
struct Largest;
template <>
struct Largest<NativeLane<float>> {
  static constexpr int32_t kBits = 0x7f7fffff;
};
template <>
struct Largest<SmallFloatLane<kFloat16>> {
  static constexpr int32_t kBits = 0x477fe000;  // 65504
};
template <>
struct Largest<SmallFloatLane<kBfloat16>> {
  static constexpr int32_t kBits = 0x7f7f0000;
};

TUTTI_INLINE Floats choose(Words mask, Floats yes, Floats no) { return (Floats)(mask ? (Words)yes : (Words)no); }
TUTTI_INLINE Words magnitude(Floats v) { return (Words)v & kMagnitude; }
/// Infinity with the sign of v.
TUTTI_INLINE Floats infinityLike(Floats v) { return (Floats)(((Words)v & ~kMagnitude) | kInfinity); }

/// Numbers of a block as integers.
struct Int8Code {
  // 125 * 2^e = 1.953125 * 2^(6 + e)
  static constexpr int32_t kMostFraction = 0x7a0000, kMostExponent = 6;
  static constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: the last bits of a sum with it are the nearest integer

  static TUTTI_INLINE Codes encode(Floats v, Floats inverse) {
    const Words size = magnitude(v);
    const Words nearest = (Words)(v * inverse + kRounder);
    const Words endless = ((Words)v < 0) ? Words{} - 127 : Words{} + 127;
    const Words special = size > kInfinity ? Words{} - 128 : endless;
    const Words code = size >= kInfinity ? special : nearest;
    return fromWords<Codes>((Vector<uint32_t>)code & 0xff);
  }
  static TUTTI_INLINE Floats decode(Codes codes, Floats scale, Floats most) {
    const Words code = (Words)(toWords(codes) << 24) >> 24;
    const Floats whole = __builtin_convertvector(code, Floats) * scale;
    const Floats finite =
        choose(magnitude(whole) > (Words)most, (Floats)((Words)most | ((Words)whole & ~kMagnitude)), whole);
    const Floats nan = (Floats)(Words{} + 0x7fc00000);
    const Floats special = choose(code == -128, nan, infinityLike((Floats)code));
    return choose((code >= 127) | (code <= -127), special, finite);
  }
};

/// Numbers of a block as e4m3.  The conversion makes 448, which no finite number is, of infinities.
struct Fp8Code {
  using Small = SmallFloatLane<kFloat8e4m3>;
  static_assert(sizeof(Small::Raw) == sizeof(Codes));
  // 416 * 2^e = 1.625 * 2^(8 + e)
  static constexpr int32_t kMostFraction = 0x500000, kMostExponent = 8;
  static constexpr int32_t kEndless = 0x43e00000;  // 448

  static TUTTI_INLINE Codes encode(Floats v, Floats inverse) { return (Codes)Small::narrow(v * inverse); }
  static TUTTI_INLINE Floats decode(Codes codes, Floats scale, Floats most) {
    const Floats small = Small::widen((Small::Raw)codes);
    const Words size = magnitude(small);
    const Floats whole = small * scale;
    const Words beyond = (magnitude(whole) > (Words)most) & (size <= kInfinity);
    const Floats finite = choose(beyond, (Floats)((Words)most | ((Words)whole & ~kMagnitude)), whole);
    return choose(size == kEndless, infinityLike(small), finite);
  }
};

/// The largest of magnitudes, where those of infinities and NaN count as 0.
TUTTI_INLINE int32_t largestFinite(const Floats* v) {
  Words most{};
  for (size_t i = 0; i < kVectorsOfBlock; ++i) {
    const Words size = magnitude(v[i]);
    const Words finite = size < kInfinity ? size : Words{};
    most = most > finite ? most : finite;
  }
  alignas(64) int32_t each[kFloats];
  __builtin_memcpy(each, &most, sizeof most);
  int32_t largest = each[0];
  for (size_t i = 1; i < kFloats; ++i) largest = largest > each[i] ? largest : each[i];
  return largest;
}

/// The byte of the scale for a block whose largest number has these bits.
template <class Code>
TUTTI_INLINE int32_t scaleOf(int32_t largest) {
  const int32_t exponent = (largest + (0x7fffff - Code::kMostFraction)) >> 23;
  const int32_t scale = exponent - Code::kMostExponent;
  return scale > 1 ? scale : 1;
}
TUTTI_INLINE Floats repeated(int32_t bits) { return (Floats)(Words{} + bits); }

template <class Lane, class Code>
TUTTI_INLINE std::byte packBlock(std::byte* codes, const std::byte* from) {
  Floats v[kVectorsOfBlock];
  for (size_t i = 0; i < kVectorsOfBlock; ++i)
    v[i] = Lane::widen(loadVector<typename Lane::Raw>(from + i * sizeof(typename Lane::Raw)));
  const int32_t scale = scaleOf<Code>(largestFinite(v));
  const Floats inverse = repeated((254 - scale) << 23);
  for (size_t i = 0; i < kVectorsOfBlock; ++i) storeVector(codes + i * sizeof(Codes), Code::encode(v[i], inverse));
  return static_cast<std::byte>(scale);
}

template <class Lane, class Code>
TUTTI_INLINE void unpackBlock(std::byte* to, const std::byte* codes, std::byte scaleByte) {
  const Floats scale = repeated(static_cast<int32_t>(scaleByte) << 23);
  const Floats most = repeated(Largest<Lane>::kBits);
  for (size_t i = 0; i < kVectorsOfBlock; ++i) {
    const Floats v = Code::decode(loadVector<Codes>(codes + i * sizeof(Codes)), scale, most);
    storeVector(to + i * sizeof(typename Lane::Raw), Lane::narrow(v));
  }
}

template <class Lane, class Code>
struct Blocks {
  static constexpr size_t kBytes = kWireBlock * Lane::kElementBytes;
  static size_t scales(size_t count) { return (count + kWireBlock - 1) / kWireBlock; }

  static void pack(std::byte* to, const std::byte* from, size_t count) {
    std::byte* codes = to + scales(count);
    const size_t whole = count / kWireBlock;
    for (size_t b = 0; b < whole; ++b) to[b] = packBlock<Lane, Code>(codes + b * kWireBlock, from + b * kBytes);
    const size_t rest = count - whole * kWireBlock;
    if (rest == 0) return;
    alignas(64) std::byte few[kBytes] = {};
    std::byte fewCodes[kWireBlock];
    copyFew<kBytes>(few, from + whole * kBytes, rest * Lane::kElementBytes);
    to[whole] = packBlock<Lane, Code>(fewCodes, few);
    copyFew<kWireBlock>(codes + whole * kWireBlock, fewCodes, rest);
  }

  static void unpack(std::byte* to, const std::byte* from, size_t count) {
    const std::byte* codes = from + scales(count);
    const size_t whole = count / kWireBlock;
    for (size_t b = 0; b < whole; ++b) unpackBlock<Lane, Code>(to + b * kBytes, codes + b * kWireBlock, from[b]);
    const size_t rest = count - whole * kWireBlock;
    if (rest == 0) return;
    alignas(64) std::byte few[kBytes];
    std::byte fewCodes[kWireBlock] = {};
    copyFew<kWireBlock>(fewCodes, codes + whole * kWireBlock, rest);
    unpackBlock<Lane, Code>(few, fewCodes, from[whole]);
    copyFew<kBytes>(to + whole * kBytes, few, rest * Lane::kElementBytes);
  }
};

/// float32 as bfloat16.
struct Halves {
  using Half = SmallFloatLane<kBfloat16>;
  using Raw = Half::Raw;

  static void pack(std::byte* to, const std::byte* from, size_t count) {
    size_t i = 0;
    for (; i + kFloats <= count; i += kFloats) storeVector(to + 2 * i, Half::narrow(loadVector<Floats>(from + 4 * i)));
    if (i == count) return;
    alignas(64) std::byte few[sizeof(Raw)];
    storeVector(few, Half::narrow(loadFew<Floats>(from + 4 * i, 4 * (count - i))));
    copyFew<sizeof(Raw)>(to + 2 * i, few, 2 * (count - i));
  }

  static void unpack(std::byte* to, const std::byte* from, size_t count) {
    size_t i = 0;
    for (; i + kFloats <= count; i += kFloats) storeVector(to + 4 * i, Half::widen(loadVector<Raw>(from + 2 * i)));
    if (i == count) return;
    alignas(64) std::byte packed[sizeof(Raw)] = {}, few[sizeof(Floats)];
    copyFew<sizeof(Raw)>(packed, from + 2 * i, 2 * (count - i));
    storeVector(few, Half::widen(loadVector<Raw>(packed)));
    copyFew<sizeof(Floats)>(to + 4 * i, few, 4 * (count - i));
  }
};

template <class Lane>
WireKernels blocksOf(WireFormat format) {
  if (format == WireFormat::Fp8) return {Blocks<Lane, Fp8Code>::pack, Blocks<Lane, Fp8Code>::unpack};
  return {Blocks<Lane, Int8Code>::pack, Blocks<Lane, Int8Code>::unpack};
}

WireKernels findWire(WireFormat format, tuttiDataType_t dtype) {
  if (format == WireFormat::Full) return {};
  if (format == WireFormat::Bf16)
    return dtype == tuttiFloat32 ? WireKernels{Halves::pack, Halves::unpack} : WireKernels{};
  if (dtype == tuttiFloat32) return blocksOf<NativeLane<float>>(format);
  if (dtype == tuttiFloat16) return blocksOf<SmallFloatLane<kFloat16>>(format);
  if (dtype == tuttiBfloat16) return blocksOf<SmallFloatLane<kBfloat16>>(format);
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
WireKernels wireKernels(WireFormat format, tuttiDataType_t dtype) { return TUTTI_SIMD_BEST(findWire)(format, dtype); }
}  // namespace tutti
#endif
