// Element-wise reductions on host memory: every type with every operator.
//
// 16-bit and 8-bit floats are widened to float, combined, and rounded once (to nearest, ties to even) per call; with
// several sources all of them are combined in float before that.  Any alignment, any count.  No allocation.
// Source: IEEE 754-2019; OCP 8-bit floating point specification 1.0 (E4M3: no infinity, 448 saturates; E5M2).
#pragma once

#include <cstddef>
#include <span>

#include "src/base/types.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// An operator as the executor applies it.  A value; a user's function and context are borrowed.
struct Reduction {
  tuttiDataType_t dtype = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;             // built-in part: avg and PreMulSum combine as sum
  tuttiRedFunction_t function = nullptr;  // set: the user's operator
  void* context = nullptr;
};

/// dst[i] = a[i] op b[i] for i < count.  dst may be a or b; other overlap is not allowed.
void reducePair(const Reduction& r, void* dst, const void* a, const void* b, size_t count);

/// dst[i] = sources[0][i] op sources[1][i] op ... (left to right).  dst may be any one of the sources.  At least one
/// source, at most kMaxSources; with one it is a copy.
inline constexpr size_t kMaxSources = 64;
void reduceMany(const Reduction& r, void* dst, std::span<const void* const> sources, size_t count);

/// dst[i] = src[i] * scalar, for PreMulSum (`scalar` points to one element of dtype).  dst may be src.
void scale(tuttiDataType_t dtype, void* dst, const void* src, const void* scalar, size_t count);

/// data[i] = data[i] / divisor, for avg.  Integers round toward zero.
void divide(tuttiDataType_t dtype, void* data, int divisor, size_t count);

/// memcpy that stores past the cache when `bytes` is large enough for that to win on this machine.
void copyBytes(void* dst, const void* src, size_t bytes);

/// One element of dtype to and from double, rounding as above; for tests and perf programs.
double toDouble(tuttiDataType_t dtype, const void* element);
void fromDouble(tuttiDataType_t dtype, void* element, double value);

}  // namespace tutti
