// Element-wise reductions on host memory: every type with every operator.
//
// What the operators do, beyond the obvious:
//   integers     sum and prod wrap modulo 2^bits.
//   float types  max and min are IEEE 754-2019 maximum and minimum: a NaN operand gives NaN, and -0 < +0.
//   land, lor    an operand is true when it is not zero (a NaN is); the result is 1 or 0 of the type.
//   bool         any nonzero byte is true and results are 1 or 0.  sum, max, bor, lor: any; prod, min, band, land and
//                avg: all; bxor: an odd number of them.
//   avg          combines as sum here; divide() is the caller's last step.
// 16-bit and 8-bit floats are widened to float, combined, and rounded once (to nearest, ties to even) per call; with
// several sources all of them are combined in float before that.  Subnormals are kept.  float16 and bfloat16 overflow
// to infinity.  float8 saturates: what is too large, an infinite result too, becomes the largest finite value (448 in
// e4m3, which has no infinity; 57344 in e5m2), so that one overflow does not poison a tensor; NaN stays NaN.
// For all other types reduceMany gives bit for bit what a chain of reducePair gives.
// No function here allocates.  Any thread; any alignment, any count.
// Source: IEEE 754-2019; OCP 8-bit floating point specification 1.0, with its saturating conversion.
#pragma once

#include <cstddef>
#include <span>

#include "src/base/copy.hpp"
#include "src/base/types.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// An operator as the executor applies it.  A value; a user's function and context are borrowed.
struct Reduction {
  tuttiDataType_t dtype = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;  // built-in part: avg and PreMulSum (any value from tuttiNumOps) combine as sum
  tuttiRedFunction_t function = nullptr;  // set: the user's operator; gets element-aligned blocks of any length
  void* context = nullptr;
};

/// dst[i] = a[i] op b[i] for i < count.  dst may be a or b; other overlap is not allowed.
void reducePair(const Reduction& r, void* dst, const void* a, const void* b, size_t count);

/// dst[i] = sources[0][i] op sources[1][i] op ... (left to right).  dst may be any one of the sources.  At least one
/// source, at most kMaxSources; with one it is a copy.
/// touchedBytes: as for copyPiece (src/base/copy.hpp); 0: this piece is all there is.
inline constexpr size_t kMaxSources = 64;
void reduceMany(const Reduction& r, void* dst, std::span<const void* const> sources, size_t count,
                size_t touchedBytes = 0);

/// dst[i] = src[i] * scalar, for PreMulSum (`scalar` points to one element of dtype).  dst may be src.
void scale(tuttiDataType_t dtype, void* dst, const void* src, const void* scalar, size_t count);

/// data[i] = data[i] / divisor, for avg; divisor > 0.  Integers round toward zero; bool is left as it is.
void divide(tuttiDataType_t dtype, void* data, int divisor, size_t count);

}  // namespace tutti
