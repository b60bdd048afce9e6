// float16 and bfloat16.
#include "src/exec/reduce/reduce_kernels.hpp"
#include "src/exec/reduce/simd_dispatch.hpp"
#include "src/exec/reduce/simd_foreach.hpp"
#if TUTTI_HAVE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/exec/reduce/reduce_half.cpp"
#include <hwy/foreach_target.h>
#endif
#include "src/exec/reduce/smallfloat-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

TypeKernels findHalf(tuttiDataType_t dtype) {
  if (dtype == tuttiFloat16) return floatingKernels<SmallFloatLane<kFloat16>>();
  if (dtype == tuttiBfloat16) return floatingKernels<SmallFloatLane<kBfloat16>>();
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
TypeKernels halfKernels(tuttiDataType_t dtype) { return TUTTI_SIMD_BEST(findHalf)(dtype); }
}  // namespace tutti
#endif
