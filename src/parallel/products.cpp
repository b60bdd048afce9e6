// Layout-invariant products on a device.
#include "src/parallel/tp.hpp"

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
    device.add<T>(parts.back().sum.data(), right.sum.data(), count);
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
    device.multiply(leaf);
    while (parts.size() > 1 && parts[parts.size() - 2].leaves == parts.back().leaves) join();
  }
  while (parts.size() > 1) join();
  T* to = static_cast<T*>(call.c);
  const T* sum = parts[0].sum.data();
  if (call.accumulate) {
    device.addMatrix(to, call.ldc, sum, call.n, call.m, call.n);
  } else {
    device.copyMatrix(to, call.ldc, sum, call.n, call.m, call.n);
  }
}

}  // namespace

void multiplyLeaves(Device& device, const tuttiMatmul_t& call, const int64_t* kCuts, int nLeaves) {
  if (nLeaves == 1) return device.multiply(call);
  withType(call.dtype, [&](auto zero) { multiplyAlongTree<decltype(zero)>(device, call, kCuts, nLeaves); });
}

}  // namespace tutti::parallel
