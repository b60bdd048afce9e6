// The CUDA driver for layers: libcuda.so.1 by dlopen.  Nothing links against it.
#pragma once

#include "src/device/cuda_abi.hpp"
#include "src/parallel/fail.hpp"

namespace tutti::cuda {

/// The functions of the driver, as pointers of their names.
struct LayerDriver {
#define TUTTI_LAYER_CUDA_MEMBER(name, version, parameters) Error(*name) parameters = nullptr;
  TUTTI_CUDA_FUNCTIONS(TUTTI_LAYER_CUDA_MEMBER)
#undef TUTTI_LAYER_CUDA_MEMBER
};

}  // namespace tutti::cuda

namespace tutti::parallel {

using CudaDriver = cuda::LayerDriver;

/// Loaded and initialized at the first call, and until the process ends.  Throws tuttiInvalidUsage with the reason why
/// there is none.
const CudaDriver& cudaDriver();
/// Throws tuttiUnhandledCudaError unless the driver took the call `what`.
void checkCuda(cuda::Error error, const char* what);
#define TUTTI_LAYER_CUDA(call) ::tutti::parallel::checkCuda(::tutti::parallel::cudaDriver().call, #call)

/// The device's primary context is current on this thread while this lives.
class CudaCurrent {
 public:
  explicit CudaCurrent(cuda::Context context) { TUTTI_LAYER_CUDA(cuCtxPushCurrent(context)); }
  ~CudaCurrent() {
    cuda::Context popped = nullptr;
    cudaDriver().cuCtxPopCurrent(&popped);
  }
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;
};

}  // namespace tutti::parallel
