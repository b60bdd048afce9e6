// Which instruction set's copy of a function runs: that of the best which this processor has.
//
// TUTTI_SIMD_BEST(function) stands where Highway has HWY_DYNAMIC_DISPATCH(function).  Highway's choice lives in its
// shared library, which measures the processor's clock when it is loaded: longer than the rest of this library takes,
// and a file more that a machine must have.
#pragma once

#include <type_traits>

#include "src/exec/reduce/simd_target.hpp"

namespace tutti {

enum class SimdLevel { Plain, Sse4, Avx2, Avx512 };

#if TUTTI_HAVE_HIGHWAY && defined(__x86_64__)
/// What the processor and the operating system have, with all that Highway's targets of these names ask for.
inline SimdLevel simdLevelOfProcessor() {
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("aes") || !__builtin_cpu_supports("pclmul")) {
    return SimdLevel::Plain;
  }
  // Every processor with these three has half floats and BMI1, for which not all compilers know a name.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) {
    return SimdLevel::Sse4;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  return avx512 ? SimdLevel::Avx512 : SimdLevel::Avx2;
}

/// For tests: the level that is used from now on, at most the processor's.
inline SimdLevel& simdLevel() {
  static SimdLevel level = simdLevelOfProcessor();
  return level;
}

/// Null are the copies that the compiler was not asked for, because it may use better ones everywhere.
template <class Function>
Function* bestCopy(Function* plain, std::type_identity_t<Function>* sse4, std::type_identity_t<Function>* avx2,
                   std::type_identity_t<Function>* avx512) {
  const SimdLevel level = simdLevel();
  if (level >= SimdLevel::Avx512 && avx512 != nullptr) return avx512;
  if (level >= SimdLevel::Avx2 && avx2 != nullptr) return avx2;
  return level >= SimdLevel::Sse4 && sse4 != nullptr ? sse4 : plain;
}

#define TUTTI_SIMD_BEST(function)                                                                         \
  ::tutti::bestCopy(&HWY_STATIC_DISPATCH(function), HWY_CHOOSE_SSE4(function), HWY_CHOOSE_AVX2(function), \
                    HWY_CHOOSE_AVX3(function))
#elif TUTTI_HAVE_HIGHWAY
#define TUTTI_SIMD_BEST(function) (&HWY_STATIC_DISPATCH(function))
#else
#define TUTTI_SIMD_BEST(function) (&plain::function)
#endif

}  // namespace tutti
