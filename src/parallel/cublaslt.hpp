// Matrix products by cuBLASLt, found at run time.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "src/device/cuda/device.hpp"
#include "src/parallel/products.hpp"

namespace tutti::parallel {

/// Products on one CUDA device.  One for all of the process, with one workspace for each stream; ends with the last who
/// has it.  Any thread.
class CublasLt {
 public:
  /// Throws where there is no such device.
  static std::shared_ptr<CublasLt> of(int ordinal);
  explicit CublasLt(std::shared_ptr<const cuda::CudaDevice> device) : device_(std::move(device)) {}
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  /// Enqueues c = op(a) op(b), or c += that, for each of a batch; no dimension is 0.  Throws tuttiInvalidUsage with the
  /// reason where there is no cuBLASLt.
  void multiply(const tuttiMatmul_t& call, const Batch& batch, tuttiStream_t stream);

 private:
  const cuda::DeviceMemory& workspace(cuda::Stream stream);

  std::shared_ptr<const cuda::CudaDevice> device_;
  std::mutex mutex_;  // guards what follows
  void* handle_ = nullptr;
  std::map<cuda::Stream, cuda::DeviceMemory> workspaces_;
};

}  // namespace tutti::parallel
