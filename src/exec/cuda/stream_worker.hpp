// A worker that enqueues on a CUDA stream.
#pragma once

#include <memory>

#include "src/device/cuda/stream.hpp"
#include "src/exec/cuda/cuda_kernels.hpp"
#include "src/exec/worker.hpp"

namespace tutti {

/// Enqueues on whatever `stream` says at the time of the call; the device's context must be current.
class StreamWorker : public Worker {
 public:
  /// stream: borrowed.
  StreamWorker(std::shared_ptr<const CudaKernels> kernels, cuda::StreamOps* stream)
      : kernels_(std::move(kernels)), stream_(*stream) {}

  Status copy(void* dst, const void* src, size_t bytes) override { return stream_.copy(dst, src, bytes); }
  Status reduce(const Reduction& r, void* dst, std::span<const void* const> sources, size_t count) override {
    TUTTI_TRY(stream_.flush());
    return kernels_->reduce(stream_.stream(), r, dst, sources, count);
  }
  Status scale(tuttiDataType_t dtype, void* dst, const void* src, const void* scalar, bool onDevice,
               size_t count) override {
    TUTTI_TRY(stream_.flush());
    return kernels_->scale(stream_.stream(), dtype, dst, src, scalar, onDevice, count);
  }
  Status divide(tuttiDataType_t dtype, void* data, int divisor, size_t count) override {
    TUTTI_TRY(stream_.flush());
    return kernels_->divide(stream_.stream(), dtype, data, divisor, count);
  }

 private:
  std::shared_ptr<const CudaKernels> kernels_;
  cuda::StreamOps& stream_;
};

}  // namespace tutti
