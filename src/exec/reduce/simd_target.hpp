// What simd-inl.hpp needs of Highway, or stand-ins for a build without it.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if !TUTTI_HAVE_HIGHWAY
#define HWY_NAMESPACE plain
#define HWY_BEFORE_NAMESPACE() static_assert(true, "")
#define HWY_AFTER_NAMESPACE() static_assert(true, "")
#define HWY_ONCE 1
#endif

#define TUTTI_INLINE __attribute__((always_inline)) inline
