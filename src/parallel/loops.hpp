// Tutti's own matrix product, whose bits depend on nothing but the operands' values.
#pragma once

#include "tutti/parallel/kernels.h"

namespace tutti::parallel {

/// See tuttiMatmulLeaves.  Arguments have been checked.
void matmulLeaves(const tuttiMatmul_t& call, const int64_t* kCuts, int nLeaves);
/// Which vectors matmulLeaves uses here: "AVX-512", "AVX2" or "128-bit vectors".  The bits are the same with all.
const char* matmulVectors();
/// Throws unless the call makes sense.
void checkMatmul(const tuttiMatmul_t* call);

}  // namespace tutti::parallel
