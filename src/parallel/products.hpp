// Matrix products on a device; the arguments have been checked (checkMatmul).
#pragma once

#include "src/parallel/memory.hpp"
#include "tutti/parallel/kernels.h"

namespace tutti::parallel {

/// Products of one shape whose operands begin so many elements apart.
struct Batch {
  int64_t count = 1, a = 0, b = 0, c = 0;
};

/// The fastest, in any order of sums: on the host tuttiKernelsFast's, on CUDA cuBLASLt's.
void multiplyFast(Device& device, const tuttiMatmul_t& call, const Batch& batch = {});
/// Tutti's own, as tuttiKernelsInvariant.
void multiplyInvariant(Device& device, const tuttiMatmul_t& call, const Batch& batch = {});
/// Each by a kernel table; throws what one failed with.
void multiplyByTable(const tuttiKernels_t& kernels, const tuttiMatmul_t& call, const Batch& batch);

/// As matmulLeaves on a device: the same bits.
void multiplyLeaves(Device& device, const tuttiMatmul_t& call, const int64_t* kCuts, int nLeaves);

}  // namespace tutti::parallel
