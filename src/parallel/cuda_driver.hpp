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

/// While this lives, stream captures do not forbid this thread what set-up and polling need, nor do these invalidate
/// them.
class BesideCaptures {
 public:
  BesideCaptures() { cudaDriver().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCaptures() { cudaDriver().cuThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  int mode_ = cuda::kCaptureModeRelaxed;
};

/// The device's primary context is current on this thread while this lives, beside captures.
class CudaCurrent {
 public:
  explicit CudaCurrent(cuda::Context context) { TUTTI_LAYER_CUDA(cuCtxPushCurrent(context)); }
  ~CudaCurrent() {
    cuda::Context popped = nullptr;
    cudaDriver().cuCtxPopCurrent(&popped);
  }
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;

 private:
  BesideCaptures beside_;
};

}  // namespace tutti::parallel
