// All kernels, as lists.  Types whose bits combine alike share one: a sum of int32 is one of uint32.
#pragma once

#include "src/exec/kernels/formats.hpp"
#include "src/exec/kernels/operators.hpp"

namespace tutti::kernels {

using U8 = Plain<uint8_t>;
using U16 = Plain<uint16_t>;
using U32 = Plain<uint32_t>;
using U64 = Plain<uint64_t>;
using I8 = Plain<int8_t>;
using I16 = Plain<int16_t>;
using I32 = Plain<int32_t>;
using I64 = Plain<int64_t>;
using F32 = Plain<float>;
using F64 = Plain<double>;
using F16 = Small<kFloat16>;
using BF16 = Small<kBfloat16>;
using E4M3 = Small<kFloat8e4m3>;
using E5M2 = Small<kFloat8e5m2>;

}  // namespace tutti::kernels

// X(Format, Operator): kernel tutti_reduce_Format_Operator.
#define TUTTI_WRAPPING_KERNELS(X, F) X(F, Sum) X(F, Prod) X(F, Band) X(F, Bor) X(F, Bxor) X(F, Land) X(F, Lor)
#define TUTTI_ORDER_KERNELS(X, F) X(F, Max) X(F, Min)
#define TUTTI_FLOAT_KERNELS(X, F) X(F, Sum) X(F, Prod) X(F, FloatMax) X(F, FloatMin) X(F, Land) X(F, Lor)

// clang-format off
#define TUTTI_INTEGER_REDUCE_KERNELS(X)                          \
  TUTTI_WRAPPING_KERNELS(X, U8) TUTTI_WRAPPING_KERNELS(X, U16)   \
  TUTTI_WRAPPING_KERNELS(X, U32) TUTTI_WRAPPING_KERNELS(X, U64)  \
  TUTTI_ORDER_KERNELS(X, U8) TUTTI_ORDER_KERNELS(X, I8)          \
  TUTTI_ORDER_KERNELS(X, U16) TUTTI_ORDER_KERNELS(X, I16)        \
  TUTTI_ORDER_KERNELS(X, U32) TUTTI_ORDER_KERNELS(X, I32)        \
  TUTTI_ORDER_KERNELS(X, U64) TUTTI_ORDER_KERNELS(X, I64)        \
  X(Truth, Land) X(Truth, Lor) X(Truth, Bxor)
#define TUTTI_FLOAT_REDUCE_KERNELS(X) TUTTI_FLOAT_KERNELS(X, F32) TUTTI_FLOAT_KERNELS(X, F64)
#define TUTTI_SMALL_REDUCE_KERNELS(X)                            \
  TUTTI_FLOAT_KERNELS(X, F16) TUTTI_FLOAT_KERNELS(X, BF16)       \
  TUTTI_FLOAT_KERNELS(X, E4M3) TUTTI_FLOAT_KERNELS(X, E5M2)
// clang-format on
#define TUTTI_REDUCE_KERNELS(X) \
  TUTTI_INTEGER_REDUCE_KERNELS(X) TUTTI_FLOAT_REDUCE_KERNELS(X) TUTTI_SMALL_REDUCE_KERNELS(X)

// X(Format): kernel tutti_scale_Format; X(Format): kernel tutti_divide_Format.
#define TUTTI_SCALE_KERNELS(X) X(U8) X(U16) X(U32) X(U64) X(F32) X(F64) X(F16) X(BF16) X(E4M3) X(E5M2)
#define TUTTI_DIVIDE_KERNELS(X) \
  X(U8) X(U16) X(U32) X(U64) X(I8) X(I16) X(I32) X(I64) X(F32) X(F64) X(F16) X(BF16) X(E4M3) X(E5M2)
