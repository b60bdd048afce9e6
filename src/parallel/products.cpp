#include "src/parallel/products.hpp"

#include <vector>

#include "src/parallel/cublaslt.hpp"
#include "src/parallel/launch.hpp"
#include "src/parallel/tensor.hpp"

namespace tutti::parallel {
namespace {

/// Sums of leaves that come in order; two that are as large become one, so that few are held.  What is left at the end,
/// added from the right, is the tree of sums.h.
template <class T>
void multiplyAlongTree(Device& device, const tuttiMatmul_t& call, const int64_t* kCuts, int nLeaves) {
  struct Part {
    int64_t leaves;
    Array<T> sum;
  };
  const size_t count = static_cast<size_t>(call.m * call.n);
  std::vector<Part> parts;
  const auto join = [&] {
    Part right = std::move(parts.back());
    parts.pop_back();
    addVector<T>(device, parts.back().sum.data(), right.sum.data(), count);
    parts.back().leaves += right.leaves;
  };
  for (int l = 0; l < nLeaves; ++l) {
    tuttiMatmul_t leaf = call;
    parts.push_back({1, Array<T>(device, count, Array<T>::Any)});
    leaf.a = static_cast<const T*>(call.a) + kCuts[l] * (call.transposeA ? call.lda : 1);
    leaf.b = static_cast<const T*>(call.b) + kCuts[l] * (call.transposeB ? 1 : call.ldb);
    leaf.k = kCuts[l + 1] - kCuts[l];
    leaf.c = parts.back().sum.data();
    leaf.ldc = call.n;
    leaf.accumulate = 0;
    multiplyInvariant(device, leaf);
    while (parts.size() > 1 && parts[parts.size() - 2].leaves == parts.back().leaves) join();
  }
  while (parts.size() > 1) join();
  T* to = static_cast<T*>(call.c);
  const T* sum = parts[0].sum.data();
  if (call.accumulate) {
    addMatrix(device, to, call.ldc, sum, call.n, call.m, call.n);
  } else {
    copyMatrix(device, to, call.ldc, sum, call.n, call.m, call.n);
  }
}

}  // namespace

void multiplyByTable(const tuttiKernels_t& kernels, const tuttiMatmul_t& call, const Batch& batch) {
  const int64_t bytes = call.dtype == tuttiFloat32 ? sizeof(float) : sizeof(double);
  for (int64_t i = 0; i < batch.count; ++i) {
    tuttiMatmul_t one = call;
    one.a = static_cast<const char*>(call.a) + i * batch.a * bytes;
    one.b = static_cast<const char*>(call.b) + i * batch.b * bytes;
    one.c = static_cast<char*>(call.c) + i * batch.c * bytes;
    const tuttiResult_t result = kernels.matmul(kernels.context, &one);
    if (result != tuttiSuccess) {
      fail(result, "the matrix product of the kernel table failed: ", tuttiParallelGetLastError());
    }
  }
}

void multiplyFast(Device& device, const tuttiMatmul_t& call, const Batch& batch) {
  if (!device.onHost()) {
    if (call.m == 0 || call.n == 0 || batch.count == 0) return;
    if (call.k == 0) return multiplyInvariant(device, call, batch);
    return CublasLt::of(device.ordinal())->multiply(call, batch, streamOf(device));
  }
  tuttiKernels_t fast = TUTTI_KERNELS_INITIALIZER;
  if (const tuttiResult_t result = tuttiKernelsFast(&fast); result != tuttiSuccess) {
    fail(result, tuttiParallelGetLastError());
  }
  multiplyByTable(fast, call, batch);
}

void multiplyInvariant(Device& device, const tuttiMatmul_t& m, const Batch& batch) {
  const int64_t aRow = m.transposeA ? 1 : m.lda, aColumn = m.transposeA ? m.lda : 1;
  const int64_t bRow = m.transposeB ? 1 : m.ldb, bColumn = m.transposeB ? m.ldb : 1;
  const kernels::ProductCall call{m.c,  m.a,     m.b,   m.m,          m.n,         m.k,     aRow,    aColumn,
                                  bRow, bColumn, m.ldc, m.accumulate, batch.count, batch.a, batch.b, batch.c};
  withType(m.dtype, [&](auto zero) { launch<decltype(zero), Kernel::Multiply>(device, call); });
}

void multiplyLeaves(Device& device, const tuttiMatmul_t& call, const int64_t* kCuts, int nLeaves) {
  if (nLeaves == 1) return multiplyInvariant(device, call);
  withType(call.dtype, [&](auto zero) { multiplyAlongTree<decltype(zero)>(device, call, kCuts, nLeaves); });
}

}  // namespace tutti::parallel
