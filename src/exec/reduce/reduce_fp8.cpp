// float8, e4m3 and e5m2.
#include "src/exec/reduce/reduce_kernels.hpp"
#include "src/exec/reduce/simd_dispatch.hpp"
#include "src/exec/reduce/simd_foreach.hpp"
#if TUTTI_HAVE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/exec/reduce/reduce_fp8.cpp"
#include <hwy/foreach_target.h>
#endif
#include "src/exec/reduce/smallfloat-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

TypeKernels findFp8(tuttiDataType_t dtype) {
  if (dtype == tuttiFloat8e4m3) return floatingKernels<SmallFloatLane<kFloat8e4m3>>();
  if (dtype == tuttiFloat8e5m2) return floatingKernels<SmallFloatLane<kFloat8e5m2>>();
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
TypeKernels fp8Kernels(tuttiDataType_t dtype) { return TUTTI_SIMD_BEST(findFp8)(dtype); }
}  // namespace tutti
#endif
