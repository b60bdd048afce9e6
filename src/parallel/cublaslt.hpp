// Matrix products by cuBLASLt, found at run time.
#pragma once

#include "src/device/cuda/abi.hpp"
#include "src/parallel/device.hpp"

namespace tutti::parallel {

/// Products on the device whose context is current.  One thread at a time.
class CublasLt {
 public:
  /// Throws tuttiInvalidUsage with the reason where there is no cuBLASLt.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  /// Enqueues c = op(a) op(b), or c += that, for each of a batch; the arguments have been checked, and no dimension is
  /// 0.
  ///   workspace  device memory of so many bytes, used in the order of the stream
  void multiply(const tuttiMatmul_t& call, const Batch& batch, void* workspace, size_t workspaceBytes,
                cuda::Stream stream);

 private:
  void* handle_ = nullptr;
};

}  // namespace tutti::parallel
