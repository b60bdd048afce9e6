// What the training layers declare of cuBLASLt is what its header has.
#include <cublasLt.h>
#include <catch2/catch.hpp>

#include "src/parallel/cublaslt_abi.hpp"

namespace {

using namespace tutti::cublaslt;

/// As large and passed alike: handles are pointers, enumerations ints.
template <class Ours, class... A, class... B>
constexpr bool alike(Ours (*)(A...), cublasStatus_t (*)(B...)) {
  return sizeof(Ours) == sizeof(cublasStatus_t) && sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...) &&
         ((std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);
}
#define TUTTI_TEST_ALIKE(name, parameters) \
  static_assert(alike(static_cast<Status(*) parameters>(nullptr), static_cast<decltype(&::name)>(nullptr)), #name);
TUTTI_CUBLASLT_FUNCTIONS(TUTTI_TEST_ALIKE)

}  // namespace

TEST_CASE("values of cuBLASLt's enumerations are those of its header") {
  CHECK(kFloat32 == CUDA_R_32F);
  CHECK(kFloat64 == CUDA_R_64F);
  CHECK(kCompute32 == CUBLAS_COMPUTE_32F);
  CHECK(kCompute64 == CUBLAS_COMPUTE_64F);
  CHECK(kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
  CHECK(kTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
  CHECK(kBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  CHECK(kBatchStep == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  CHECK(kPlain == CUBLAS_OP_N);
  CHECK(kTransposed == CUBLAS_OP_T);
}
