// Host memory that a CUDA device copies from and to without help of the host.
#pragma once

#include <memory>

#include "src/device/cuda/device.hpp"

namespace tutti::cuda {

/// Pinned memory with one owner.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();
  /// Not zeroed.  Errors: SystemError when there is not that much left; UnhandledCudaError.
  static Result<PinnedMemory> allocate(std::shared_ptr<const CudaDevice> device, size_t bytes);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const CudaDevice> device_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tutti::cuda
