// Integers of 8 and 16 bits, and bool.
#include "src/exec/reduce/reduce_kernels.hpp"
#include "src/exec/reduce/simd_dispatch.hpp"
#include "src/exec/reduce/simd_foreach.hpp"
#if TUTTI_HAVE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/exec/reduce/reduce_small_int.cpp"
#include <hwy/foreach_target.h>
#endif
#include "src/exec/reduce/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

/// One byte, any nonzero value true; 1 or 0 in a register and when stored.
struct BoolLane {
  using Acc = Vector<uint8_t>;
  using Raw = Acc;
  static constexpr size_t kElementBytes = 1;
  static constexpr size_t kLanes = kVectorBytes;
  static TUTTI_INLINE Acc widen(Raw v) { return v != 0 ? Acc{} + 1 : Acc{}; }
  static TUTTI_INLINE Raw narrow(Acc v) { return v; }
};

TypeKernels boolKernels() {
  constexpr ReduceKernel all = reduceLoop<BoolLane, And>;
  constexpr ReduceKernel any = reduceLoop<BoolLane, Or>;
  TypeKernels k;
  k.reduce[tuttiSum] = k.reduce[tuttiMax] = k.reduce[tuttiLor] = k.reduce[tuttiBor] = any;
  k.reduce[tuttiProd] = k.reduce[tuttiMin] = k.reduce[tuttiLand] = k.reduce[tuttiBand] = k.reduce[tuttiAvg] = all;
  k.reduce[tuttiBxor] = reduceLoop<BoolLane, Xor>;
  k.scale = scaleLoop<BoolLane, And>;
  return k;
}

TypeKernels findSmallInt(tuttiDataType_t dtype) {
  switch (dtype) {
    case tuttiInt8: return integerKernelsOf<int8_t, uint8_t>();
    case tuttiUint8: return integerKernelsOf<uint8_t, uint8_t>();
    case tuttiInt16: return integerKernelsOf<int16_t, uint16_t>();
    case tuttiUint16: return integerKernelsOf<uint16_t, uint16_t>();
    case tuttiBool: return boolKernels();
    default: return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
TypeKernels smallIntKernels(tuttiDataType_t dtype) { return TUTTI_SIMD_BEST(findSmallInt)(dtype); }
}  // namespace tutti
#endif
