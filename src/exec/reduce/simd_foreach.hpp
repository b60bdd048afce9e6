// Which instruction sets the loops are compiled for; included before <hwy/foreach_target.h>.
//
// Four are enough: plain x86-64, SSE4, AVX2 and AVX-512.  The variants between them differ in nothing these loops use.
#pragma once

#ifndef TUTTI_SIMD_LEFT_OUT  // builds with sanitizers leave out more
#define TUTTI_SIMD_LEFT_OUT 0
#endif
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | TUTTI_SIMD_LEFT_OUT)
#if !defined(__x86_64__)
#define HWY_COMPILE_ONLY_STATIC  // nothing to choose from: vectors are 16 bytes
#endif
