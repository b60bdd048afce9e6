// The inner loops of reduce.hpp: one function per type and operator, found by table look-up.
//
// The files reduce_int, reduce_small_int, reduce_float, reduce_half and reduce_fp8 each hold one family of types, so
// that no translation unit compiles for long: every one of them is compiled for several instruction sets.
#pragma once

#include <cstddef>

#include "tutti/tutti.h"

namespace tutti {

/// dst[i] = sources[0][i] op ... op sources[nSources-1][i], left to right, for i < count.  nSources >= 1; any
/// alignment; dst may be one of the sources.  `stream`: store past the cache; the stores are ordered before return.
using ReduceKernel = void (*)(std::byte* dst, const std::byte* const* sources, size_t nSources, size_t count,
                              bool stream);

/// dst[i] = src[i] * *scalar.  dst may be src.
using ScaleKernel = void (*)(std::byte* dst, const std::byte* src, const std::byte* scalar, size_t count);

/// data[i] = data[i] / divisor.
using DivideKernel = void (*)(std::byte* data, int divisor, size_t count);

/// The loops of one type for this machine.  reduce[op] is null where the operator is not defined on the type; avg's is
/// the one that combines (sum, and `and` for bool).
struct TypeKernels {
  ReduceKernel reduce[tuttiNumOps] = {};
  ScaleKernel scale = nullptr;
  DivideKernel divide = nullptr;  // floating types only
};

/// Those of any type, looked up anew (reduce.cpp keeps them).  For tests, which go through the instruction sets.
TypeKernels findKernels(tuttiDataType_t dtype);

/// Each returns the kernels of the types it knows, empty ones for others.
TypeKernels intKernels(tuttiDataType_t dtype);       // integers of 32 and 64 bits
TypeKernels smallIntKernels(tuttiDataType_t dtype);  // integers of 8 and 16 bits, bool
TypeKernels floatKernels(tuttiDataType_t dtype);     // float, double
TypeKernels halfKernels(tuttiDataType_t dtype);      // float16, bfloat16
TypeKernels fp8Kernels(tuttiDataType_t dtype);       // float8 e4m3, e5m2

}  // namespace tutti
