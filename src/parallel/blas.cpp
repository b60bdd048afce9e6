// The kernel tables: OpenBLAS, found at run time, and Tutti's own loops.
#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <mutex>

#include "src/parallel/loops.hpp"
#include "src/parallel/tensor.hpp"

namespace tutti::parallel {
namespace {

// Of OpenBLAS's cblas.h: row-major order, and whether an operand is transposed.
constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*,
                       int);

struct Blas {
  Sgemm single = nullptr;
  Dgemm twice = nullptr;
  std::string name;
};

/// What this processor's best kernels are called in OpenBLAS; old versions do not know new processors' model numbers.
const char* coreType() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

Blas loadBlas() {
  Blas blas;
  if (coreType() != nullptr) ::setenv("OPENBLAS_CORETYPE", coreType(), 0);
  ::setenv("OPENBLAS_NUM_THREADS", "1", 0);
  void* library = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return blas;
  blas.single = reinterpret_cast<Sgemm>(::dlsym(library, "cblas_sgemm"));
  blas.twice = reinterpret_cast<Dgemm>(::dlsym(library, "cblas_dgemm"));
  if (blas.single == nullptr || blas.twice == nullptr) return Blas();
  const auto core = reinterpret_cast<char* (*)()>(::dlsym(library, "openblas_get_corename"));
  const auto threads = reinterpret_cast<int (*)()>(::dlsym(library, "openblas_get_num_threads"));
  blas.name = joined("OpenBLAS ", core != nullptr ? core() : "of unknown kernels", ", ",
                     threads != nullptr ? threads() : 1, " thread(s)");
  return blas;
}

const Blas& blas() {
  static const Blas loaded = loadBlas();
  return loaded;
}

template <class T, class Gemm>
void callGemm(Gemm gemm, const tuttiMatmul_t& m) {
  const auto narrowed = [](int64_t x) {
    require(x <= INT_MAX, "OpenBLAS takes no dimension of ", x);
    return static_cast<int>(x);
  };
  gemm(kRowMajor, m.transposeA ? kTransposed : kPlain, m.transposeB ? kTransposed : kPlain, narrowed(m.m),
       narrowed(m.n), narrowed(m.k), T(1), static_cast<const T*>(m.a), narrowed(m.lda), static_cast<const T*>(m.b),
       narrowed(m.ldb), m.accumulate ? T(1) : T(0), static_cast<T*>(m.c), narrowed(m.ldc));
}

tuttiResult_t openBlas(void*, const tuttiMatmul_t* call) {
  return guarded([&] {
    checkMatmul(call);
    if (call->m == 0 || call->n == 0) return;
    if (call->k == 0) {
      const int64_t none[] = {0, 0};
      matmulLeaves(*call, none, 1);
    } else if (call->dtype == tuttiFloat32) {
      callGemm<float>(blas().single, *call);
    } else {
      callGemm<double>(blas().twice, *call);
    }
  });
}

tuttiResult_t ownLoops(void*, const tuttiMatmul_t* call) {
  return guarded([&] {
    checkMatmul(call);
    const int64_t whole[] = {0, call->k};
    matmulLeaves(*call, whole, 1);
  });
}

void give(const tuttiKernels_t& kernels, tuttiKernels_t* theirs) {
  require(theirs != nullptr && theirs->size >= sizeof(size_t), "kernels: begin from TUTTI_KERNELS_INITIALIZER");
  giveStruct(kernels, theirs);
}

}  // namespace

void checkMatmul(const tuttiMatmul_t* m) {
  require(m != nullptr, "the product is NULL");
  checkComputed(m->dtype, "the product");
  require(m->m >= 0 && m->n >= 0 && m->k >= 0, "a product of ", m->m, " x ", m->k, " and ", m->k, " x ", m->n);
  const bool empty = m->m == 0 || m->n == 0;
  require(empty || m->c != nullptr, "the product has no c");
  require(empty || m->k == 0 || (m->a != nullptr && m->b != nullptr), "the product lacks a or b");
  if (empty) return;
  require(m->ldc >= m->n, "ldc is ", m->ldc, " for rows of ", m->n);
  if (m->k == 0) return;
  require(m->lda >= (m->transposeA ? m->m : m->k), "lda is ", m->lda);
  require(m->ldb >= (m->transposeB ? m->k : m->n), "ldb is ", m->ldb);
}

}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiKernelsFast(tuttiKernels_t* kernels) {
  return guarded([&] {
    if (blas().single == nullptr) {
      const tuttiResult_t result = tuttiKernelsInvariant(kernels);
      if (result != tuttiSuccess) fail(result, tuttiParallelGetLastError());
      return;
    }
    give({sizeof(tuttiKernels_t), nullptr, openBlas, blas().name.c_str()}, kernels);
  });
}

tuttiResult_t tuttiKernelsInvariant(tuttiKernels_t* kernels) {
  return guarded([&] {
    static const std::string name = joined("Tutti's loops, ", matmulVectors());
    give({sizeof(tuttiKernels_t), nullptr, ownLoops, name.c_str()}, kernels);
  });
}

tuttiResult_t tuttiMatmulLeaves(const tuttiMatmul_t* call, const int64_t* kCuts, int nLeaves) {
  return guarded([&] {
    checkMatmul(call);
    require(nLeaves >= 1, "a sum has at least one leaf");
    checkCuts(kCuts, nLeaves, call->k, "kCuts");
    matmulLeaves(*call, kCuts, nLeaves);
  });
}
