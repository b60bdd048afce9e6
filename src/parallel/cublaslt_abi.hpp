// What is used of cuBLASLt's interface, declared here so that it builds without the toolkit.  Where cublasLt.h is
// installed, a test holds it against that.  Source: cuBLAS 13.0, cublasLt.h.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace tutti::cublaslt {

using Status = int;                 // cublasStatus_t; 0 is success
inline constexpr int kFloat32 = 0;  // cudaDataType_t
inline constexpr int kFloat64 = 1;
inline constexpr int kCompute32 = 68;  // cublasComputeType_t
inline constexpr int kCompute64 = 70;
inline constexpr int kTransposeA = 3;  // cublasLtMatmulDescAttributes_t
inline constexpr int kTransposeB = 4;
inline constexpr int kBatchCount = 5;  // cublasLtMatrixLayoutAttribute_t: int32_t
inline constexpr int kBatchStep = 6;   // int64_t, in elements
inline constexpr int32_t kPlain = 0;   // cublasOperation_t
inline constexpr int32_t kTransposed = 1;

// Handles, descriptors and layouts are opaque pointers; an algorithm of NULL is the library's choice.
#define TUTTI_CUBLASLT_FUNCTIONS(X)                                                                                 \
  X(cublasLtCreate, (void** handle))                                                                                \
  X(cublasLtDestroy, (void* handle))                                                                                \
  X(cublasLtMatmulDescCreate, (void** operation, int computeType, int scaleType))                                   \
  X(cublasLtMatmulDescDestroy, (void* operation))                                                                   \
  X(cublasLtMatmulDescSetAttribute, (void* operation, int attribute, const void* value, size_t bytes))              \
  X(cublasLtMatrixLayoutCreate, (void** layout, int type, uint64_t rows, uint64_t columns, int64_t stride))         \
  X(cublasLtMatrixLayoutSetAttribute, (void* layout, int attribute, const void* value, size_t bytes))               \
  X(cublasLtMatrixLayoutDestroy, (void* layout))                                                                    \
  X(cublasLtMatmul, (void* handle, void* operation, const void* alpha, const void* a, void* aLayout, const void* b, \
                     void* bLayout, const void* beta, const void* c, void* cLayout, void* d, void* dLayout,         \
                     const void* algorithm, void* workspace, size_t workspaceBytes, CUstream_st* stream))

}  // namespace tutti::cublaslt
