// Vectors and the reduction loop, compiled once per instruction set.
//
// With Highway, a .cpp file includes <hwy/foreach_target.h>, which includes that file again for every instruction set
// (plain x86-64, SSE4, AVX2, AVX-512; NEON on Arm), and TUTTI_SIMD_BEST picks one at run time.  Without Highway
// the same text is compiled once, for what the compiler was told to build for.  Vectors are the compiler's own, one
// register wide, so that every operator is an expression on values and the two builds share every line.
//
// Nothing of the standard library may be instantiated in here: its inline functions would be compiled for AVX-512 and
// might be the copy that the linker keeps.
#if defined(TUTTI_EXEC_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_EXEC_SIMD_INL_HPP
#undef TUTTI_EXEC_SIMD_INL_HPP
#else
#define TUTTI_EXEC_SIMD_INL_HPP
#endif

#include <cstddef>
#include <cstdint>

#include "src/exec/reduce/reduce_kernels.hpp"
#include "src/exec/reduce/simd_target.hpp"
#if TUTTI_HAVE_HIGHWAY
#include <hwy/highway.h>  // here, because it has a part for every instruction set too
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

#if TUTTI_HAVE_HIGHWAY && defined(__x86_64__)
inline constexpr size_t kVectorBytes = HWY_TARGET <= HWY_AVX3 ? 64 : HWY_TARGET <= HWY_AVX2 ? 32 : 16;
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
inline constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr size_t kVectorBytes = 32;
#else
inline constexpr size_t kVectorBytes = 16;
#endif

template <class T, size_t bytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(bytes)));
};
/// `bytes` of T in one register.
template <class T, size_t bytes = kVectorBytes>
using Vector = typename VectorOf<T, bytes>::Type;

/// The same bits as another vector.  A template, so that a branch that `if constexpr` discards may name another size.
template <class To, class From>
TUTTI_INLINE To as(From v) {
  return (To)v;
}
template <class V>
TUTTI_INLINE V loadVector(const std::byte* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(V));  // any alignment, and whatever type lies there
  return v;
}
template <class V>
TUTTI_INLINE void storeVector(std::byte* to, V v) {
  __builtin_memcpy(to, &v, sizeof(V));
}
/// Past the cache; `to` is aligned to the vector.  A plain store where there is no such instruction.
template <class V>
TUTTI_INLINE void streamVector(std::byte* to, V v) {
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)v);
  } else if constexpr (sizeof(V) == 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)v);
  } else if constexpr (sizeof(V) == 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)v);
  } else {
    storeVector(to, v);
  }
#else
  storeVector(to, v);
#endif
}
TUTTI_INLINE void streamFence() {
#if defined(__x86_64__)
  _mm_sfence();  // streaming stores pass a later release store otherwise, and a peer would see its flag first
#endif
}

/// How a native type lies in a register.  A lane type has: Acc (what operators work on), kLanes (elements of an Acc),
/// kElementBytes, Raw (as in memory), widen(Raw) -> Acc and narrow(Acc) -> Raw.
template <class T>
struct NativeLane {
  using Acc = Vector<T>;
  using Raw = Acc;
  static constexpr size_t kElementBytes = sizeof(T);
  static constexpr size_t kLanes = kVectorBytes / sizeof(T);
  static TUTTI_INLINE Acc widen(Raw v) { return v; }
  static TUTTI_INLINE Raw narrow(Acc v) { return v; }
};

// ---- Operators.  Each takes and returns an Acc.

struct Add {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a + b;
  }
};
struct Multiply {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a * b;
  }
};
struct And {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a & b;
  }
};
struct Or {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a | b;
  }
};
struct Xor {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a ^ b;
  }
};
struct IntegerMax {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a > b ? a : b;
  }
};
struct IntegerMin {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return a < b ? a : b;
  }
};
/// IEEE 754-2019 maximum and minimum: a NaN wins, and -0 is less than +0, so that no result depends on the order.
/// Equal operands have equal bits but for the signs of zeros, which `&` and `|` of the bits settle.
struct FloatMax {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    using Bits = decltype(a < b);
    const V larger = a > b ? a : b;
    const V ordered = a == b ? (V)((Bits)a & (Bits)b) : larger;
    return ((a != a) | (b != b)) ? a + b : ordered;
  }
};
struct FloatMin {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    using Bits = decltype(a < b);
    const V smaller = a < b ? a : b;
    const V ordered = a == b ? (V)((Bits)a | (Bits)b) : smaller;
    return ((a != a) | (b != b)) ? a + b : ordered;
  }
};
struct LogicalAnd {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return ((a != 0) & (b != 0)) ? V{} + 1 : V{};
  }
};
struct LogicalOr {
  template <class V>
  static TUTTI_INLINE V apply(V a, V b) {
    return ((a != 0) | (b != 0)) ? V{} + 1 : V{};
  }
};

// ---- Loops.

/// Fewer than `limit` bytes, without a call.
template <size_t limit>
TUTTI_INLINE void copyFew(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kHalf = limit / 2;
  if (bytes & kHalf) __builtin_memcpy(to, from, kHalf);
  if constexpr (kHalf > 1) copyFew<kHalf>(to + (bytes & kHalf), from + (bytes & kHalf), bytes);
}

/// The first `bytes` of a vector, zeros behind them.
template <class V>
TUTTI_INLINE V loadFew(const std::byte* from, size_t bytes) {
#if TUTTI_HAVE_HIGHWAY && defined(__x86_64__) && HWY_TARGET <= HWY_AVX3
  // Not through memory: a load that is wider than the stores before it waits until they have left the core, behind the
  // line of the message that this rank has just sent.
  const uint64_t mask = (uint64_t{1} << bytes) - 1;
  if constexpr (sizeof(V) == 64) {
    return (V)_mm512_maskz_loadu_epi8(mask, from);
  } else if constexpr (sizeof(V) == 32) {
    return (V)_mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from);
  } else if constexpr (sizeof(V) == 16) {
    return (V)_mm_maskz_loadu_epi8(static_cast<__mmask16>(mask), from);
  }
#endif
  alignas(64) std::byte few[sizeof(V)] = {};
  copyFew<sizeof(V)>(few, from, bytes);
  return loadVector<V>(few);
}

/// Fewer elements than a vector holds, at byte `at` of every operand.
template <class Lane, class Operator>
TUTTI_INLINE void reduceFew(std::byte* dst, const std::byte* const* sources, size_t nSources, size_t at,
                            size_t elements) {
  using Raw = typename Lane::Raw;
  const size_t bytes = elements * Lane::kElementBytes;
  typename Lane::Acc acc = Lane::widen(loadFew<Raw>(sources[0] + at, bytes));
  for (size_t s = 1; s < nSources; ++s) {
    acc = Operator::apply(acc, Lane::widen(loadFew<Raw>(sources[s] + at, bytes)));
  }
  alignas(64) std::byte few[sizeof(Raw)];
  storeVector(few, Lane::narrow(acc));
  copyFew<sizeof(Raw)>(dst + at, few, bytes);
}

/// Every source is read before dst is written, vector by vector, so dst may be any of them.  Four vectors at a time:
/// enough independent chains to hide an addition's latency, few enough to stay in registers.
template <class Lane, class Operator>
void reduceLoop(std::byte* dst, const std::byte* const* sources, size_t nSources, size_t count, bool stream) {
  using Raw = typename Lane::Raw;
  using Acc = typename Lane::Acc;
  constexpr size_t kBytes = sizeof(Raw);
  size_t at = 0;
  const size_t end = count * Lane::kElementBytes;
  if (stream) {
    const size_t misaligned = reinterpret_cast<uintptr_t>(dst) % 64;
    stream = misaligned % Lane::kElementBytes == 0 && kBytes >= 16;
    for (size_t head = stream && misaligned != 0 ? 64 - misaligned : 0; head != 0 && at < end;) {
      size_t piece = head < kBytes ? head : kBytes - Lane::kElementBytes;
      piece = piece < end - at ? piece : end - at;
      reduceFew<Lane, Operator>(dst, sources, nSources, at, piece / Lane::kElementBytes);
      at += piece;
      head -= piece;
    }
  }
  for (; at + 4 * kBytes <= end; at += 4 * kBytes) {
    const std::byte* first = sources[0] + at;
    Acc a0 = Lane::widen(loadVector<Raw>(first));
    Acc a1 = Lane::widen(loadVector<Raw>(first + kBytes));
    Acc a2 = Lane::widen(loadVector<Raw>(first + 2 * kBytes));
    Acc a3 = Lane::widen(loadVector<Raw>(first + 3 * kBytes));
    for (size_t s = 1; s < nSources; ++s) {
      const std::byte* next = sources[s] + at;
      a0 = Operator::apply(a0, Lane::widen(loadVector<Raw>(next)));
      a1 = Operator::apply(a1, Lane::widen(loadVector<Raw>(next + kBytes)));
      a2 = Operator::apply(a2, Lane::widen(loadVector<Raw>(next + 2 * kBytes)));
      a3 = Operator::apply(a3, Lane::widen(loadVector<Raw>(next + 3 * kBytes)));
    }
    std::byte* to = dst + at;
    if (stream) {
      streamVector(to, Lane::narrow(a0));
      streamVector(to + kBytes, Lane::narrow(a1));
      streamVector(to + 2 * kBytes, Lane::narrow(a2));
      streamVector(to + 3 * kBytes, Lane::narrow(a3));
    } else {
      storeVector(to, Lane::narrow(a0));
      storeVector(to + kBytes, Lane::narrow(a1));
      storeVector(to + 2 * kBytes, Lane::narrow(a2));
      storeVector(to + 3 * kBytes, Lane::narrow(a3));
    }
  }
  for (; at + kBytes <= end; at += kBytes) {
    Acc acc = Lane::widen(loadVector<Raw>(sources[0] + at));
    for (size_t s = 1; s < nSources; ++s) acc = Operator::apply(acc, Lane::widen(loadVector<Raw>(sources[s] + at)));
    storeVector(dst + at, Lane::narrow(acc));
  }
  if (at < end) reduceFew<Lane, Operator>(dst, sources, nSources, at, (end - at) / Lane::kElementBytes);
  if (stream) streamFence();
}

/// dst = src * scalar, the scalar being repeated through a vector first.
template <class Lane, class Operator = Multiply>
void scaleLoop(std::byte* dst, const std::byte* src, const std::byte* scalar, size_t count) {
  using Raw = typename Lane::Raw;
  constexpr size_t kBytes = sizeof(Raw);
  alignas(64) std::byte repeated[kBytes];
  for (size_t i = 0; i < kBytes; i += Lane::kElementBytes) __builtin_memcpy(repeated + i, scalar, Lane::kElementBytes);
  const typename Lane::Acc factor = Lane::widen(loadVector<Raw>(repeated));
  size_t at = 0;
  const size_t end = count * Lane::kElementBytes;
  for (; at + kBytes <= end; at += kBytes) {
    storeVector(dst + at, Lane::narrow(Operator::apply(Lane::widen(loadVector<Raw>(src + at)), factor)));
  }
  if (at == end) return;
  const std::byte* both[] = {src + at, repeated};
  reduceFew<Lane, Operator>(dst + at, both, 2, 0, (end - at) / Lane::kElementBytes);
}

/// A true division: multiplying by the reciprocal would round twice.
template <class Lane>
void divideLoop(std::byte* data, int divisor, size_t count) {
  using Raw = typename Lane::Raw;
  using Acc = typename Lane::Acc;
  constexpr size_t kBytes = sizeof(Raw);
  const Acc by = Acc{} + static_cast<decltype(Acc{}[0] + 0)>(divisor);
  size_t at = 0;
  const size_t end = count * Lane::kElementBytes;
  for (; at + kBytes <= end; at += kBytes) {
    storeVector(data + at, Lane::narrow(Lane::widen(loadVector<Raw>(data + at)) / by));
  }
  if (at == end) return;
  alignas(64) std::byte few[kBytes] = {};
  copyFew<kBytes>(few, data + at, end - at);
  storeVector(few, Lane::narrow(Lane::widen(loadVector<Raw>(few)) / by));
  copyFew<kBytes>(data + at, few, end - at);
}

/// All operators of an integer type T; U is the unsigned type of its width, in which sums and products wrap with the
/// same bits.
template <class T, class U>
TypeKernels integerKernelsOf() {
  TypeKernels k;
  k.reduce[tuttiSum] = k.reduce[tuttiAvg] = reduceLoop<NativeLane<U>, Add>;
  k.reduce[tuttiProd] = reduceLoop<NativeLane<U>, Multiply>;
  k.reduce[tuttiMax] = reduceLoop<NativeLane<T>, IntegerMax>;
  k.reduce[tuttiMin] = reduceLoop<NativeLane<T>, IntegerMin>;
  k.reduce[tuttiBand] = reduceLoop<NativeLane<U>, And>;
  k.reduce[tuttiBor] = reduceLoop<NativeLane<U>, Or>;
  k.reduce[tuttiBxor] = reduceLoop<NativeLane<U>, Xor>;
  k.reduce[tuttiLand] = reduceLoop<NativeLane<U>, LogicalAnd>;
  k.reduce[tuttiLor] = reduceLoop<NativeLane<U>, LogicalOr>;
  k.scale = scaleLoop<NativeLane<U>>;
  return k;
}

/// The six operators of a floating type, whatever its width.
template <class Lane>
TypeKernels floatingKernels() {
  TypeKernels k;
  k.reduce[tuttiSum] = k.reduce[tuttiAvg] = reduceLoop<Lane, Add>;
  k.reduce[tuttiProd] = reduceLoop<Lane, Multiply>;
  k.reduce[tuttiMax] = reduceLoop<Lane, FloatMax>;
  k.reduce[tuttiMin] = reduceLoop<Lane, FloatMin>;
  k.reduce[tuttiLand] = reduceLoop<Lane, LogicalAnd>;
  k.reduce[tuttiLor] = reduceLoop<Lane, LogicalOr>;
  k.scale = scaleLoop<Lane>;
  k.divide = divideLoop<Lane>;
  return k;
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // include guard, flipped for every instruction set
