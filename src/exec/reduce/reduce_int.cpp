// Integers of 32 and 64 bits.
#include "src/exec/reduce/reduce_kernels.hpp"
#include "src/exec/reduce/simd_dispatch.hpp"
#include "src/exec/reduce/simd_foreach.hpp"
#if TUTTI_HAVE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/exec/reduce/reduce_int.cpp"
#include <hwy/foreach_target.h>
#endif
#include "src/exec/reduce/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

TypeKernels findInt(tuttiDataType_t dtype) {
  switch (dtype) {
    case tuttiInt32: return integerKernelsOf<int32_t, uint32_t>();
    case tuttiUint32: return integerKernelsOf<uint32_t, uint32_t>();
    case tuttiInt64: return integerKernelsOf<int64_t, uint64_t>();
    case tuttiUint64: return integerKernelsOf<uint64_t, uint64_t>();
    default: return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
TypeKernels intKernels(tuttiDataType_t dtype) { return TUTTI_SIMD_BEST(findInt)(dtype); }
}  // namespace tutti
#endif
