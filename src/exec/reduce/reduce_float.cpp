// float and double.
#include "src/exec/reduce/reduce_kernels.hpp"
#include "src/exec/reduce/simd_dispatch.hpp"
#include "src/exec/reduce/simd_foreach.hpp"
#if TUTTI_HAVE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/exec/reduce/reduce_float.cpp"
#include <hwy/foreach_target.h>
#endif
#include "src/exec/reduce/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

TypeKernels findFloat(tuttiDataType_t dtype) {
  if (dtype == tuttiFloat32) return floatingKernels<NativeLane<float>>();
  if (dtype == tuttiFloat64) return floatingKernels<NativeLane<double>>();
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
TypeKernels floatKernels(tuttiDataType_t dtype) { return TUTTI_SIMD_BEST(findFloat)(dtype); }
}  // namespace tutti
#endif
