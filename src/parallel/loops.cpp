// Tiles of a few rows by one wide vector, in registers, each over one leaf of k at a time.  Lanes are different
// columns, so an element is always the same sequence of roundings: product, sum, product, sum, in the order of k.  This
// file is compiled without contraction (-ffp-contract=off): a fused multiply-add would round once where the narrow path
// rounds twice.
#include "src/parallel/loops.hpp"

#include <cstring>
#include <vector>

#include "src/parallel/tensor.hpp"
#include "src/parallel/tree.hpp"

#define TUTTI_INLINE __attribute__((always_inline)) inline

namespace tutti::parallel {
namespace {

constexpr int kVectorBytes = 64;
constexpr int kRows = 6;

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Type __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double Type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
struct Operands {
  const T* a;
  int64_t rowStep, kStep;  // of op(a)
  const T* b;
  int64_t bRowStep, columnStep;  // of op(b): k and column
  T* c;
  int64_t ldc;
  bool accumulate;
};

/// panel [k][kLanes]: columns [column, column + lanes) of op(b), zero beyond n.
template <class T>
TUTTI_INLINE void packPanel(const Operands<T>& o, int64_t k, int64_t n, int64_t column, T* panel) {
  const int64_t lanes = n - column < kLanes<T> ? n - column : kLanes<T>;
  for (int64_t p = 0; p < k; ++p) {
    const T* from = o.b + p * o.bRowStep + column * o.columnStep;
    T* to = panel + p * kLanes<T>;
    for (int64_t j = 0; j < lanes; ++j) to[j] = from[j * o.columnStep];
    for (int64_t j = lanes; j < kLanes<T>; ++j) to[j] = 0;
  }
}

/// sums [R][kLanes] = rows [row, row + R) of op(a) times the panel, over [k0, k1).
template <class T, int R>
TUTTI_INLINE void leafTile(const Operands<T>& o, int64_t row, const T* panel, int64_t k0, int64_t k1, T* sums) {
  using V = typename VectorOf<T>::Type;
  V sum[R];
  for (int r = 0; r < R; ++r) sum[r] = V{};
  for (int64_t p = k0; p < k1; ++p) {
    V b;
    __builtin_memcpy(&b, panel + p * kLanes<T>, sizeof(V));
    for (int r = 0; r < R; ++r) sum[r] += o.a[(row + r) * o.rowStep + p * o.kStep] * b;
  }
  for (int r = 0; r < R; ++r) __builtin_memcpy(sums + r * kLanes<T>, &sum[r], sizeof(V));
}

template <class T, int R>
TUTTI_INLINE void rowsOfPanel(const Operands<T>& o, int64_t row, int64_t column, int64_t lanes, const T* panel,
                              const int64_t* kCuts, int nLeaves, T* leaves) {
  for (int l = 0; l < nLeaves; ++l) {
    leafTile<T, R>(o, row, panel, kCuts[l], kCuts[l + 1], leaves + l * R * kLanes<T>);
  }
  treeSum(leaves, nLeaves, static_cast<size_t>(R * kLanes<T>));
  for (int r = 0; r < R; ++r) {
    T* to = o.c + (row + r) * o.ldc + column;
    const T* from = leaves + r * kLanes<T>;
    for (int64_t j = 0; j < lanes; ++j) to[j] = o.accumulate ? to[j] + from[j] : from[j];
  }
}

template <class T>
TUTTI_INLINE void product(const tuttiMatmul_t& m, const int64_t* kCuts, int nLeaves, T* panel, T* leaves) {
  Operands<T> o{};
  o.a = static_cast<const T*>(m.a);
  o.rowStep = m.transposeA ? 1 : m.lda;
  o.kStep = m.transposeA ? m.lda : 1;
  o.b = static_cast<const T*>(m.b);
  o.bRowStep = m.transposeB ? 1 : m.ldb;
  o.columnStep = m.transposeB ? m.ldb : 1;
  o.c = static_cast<T*>(m.c);
  o.ldc = m.ldc;
  o.accumulate = m.accumulate != 0;
  for (int64_t column = 0; column < m.n; column += kLanes<T>) {
    const int64_t lanes = m.n - column < kLanes<T> ? m.n - column : kLanes<T>;
    packPanel(o, m.k, m.n, column, panel);
    int64_t row = 0;
    for (; row + kRows <= m.m; row += kRows) {
      rowsOfPanel<T, kRows>(o, row, column, lanes, panel, kCuts, nLeaves, leaves);
    }
    for (; row < m.m; ++row) rowsOfPanel<T, 1>(o, row, column, lanes, panel, kCuts, nLeaves, leaves);
  }
}

template <class T>
using Product = void (*)(const tuttiMatmul_t&, const int64_t*, int, T*, T*);

template <class T>
void narrow(const tuttiMatmul_t& m, const int64_t* kCuts, int nLeaves, T* panel, T* leaves) {
  product<T>(m, kCuts, nLeaves, panel, leaves);
}
#if defined(__x86_64__)
template <class T>
__attribute__((target("avx2"))) void avx2(const tuttiMatmul_t& m, const int64_t* kCuts, int nLeaves, T* panel,
                                          T* leaves) {
  product<T>(m, kCuts, nLeaves, panel, leaves);
}
template <class T>
__attribute__((target("avx512f"))) void avx512(const tuttiMatmul_t& m, const int64_t* kCuts, int nLeaves, T* panel,
                                               T* leaves) {
  product<T>(m, kCuts, nLeaves, panel, leaves);
}
#endif

template <class T>
Product<T> best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512<T>;
  if (__builtin_cpu_supports("avx2")) return avx2<T>;
#endif
  return narrow<T>;
}

}  // namespace

const char* matmulVectors() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
#endif
  return "128-bit vectors";
}

void matmulLeaves(const tuttiMatmul_t& call, const int64_t* kCuts, int nLeaves) {
  withType(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    thread_local std::vector<T> panel, leaves;
    panel.resize(static_cast<size_t>(call.k * kLanes<T>));
    leaves.resize(static_cast<size_t>(nLeaves * kRows * kLanes<T>));
    best<T>()(call, kCuts, nLeaves, panel.data(), leaves.data());
  });
}

}  // namespace tutti::parallel
