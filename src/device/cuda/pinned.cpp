#include "src/device/cuda/pinned.hpp"

#include <utility>

namespace tutti::cuda {

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  const CudaScope scope(*device_);
  device_->driver().cuMemFreeHost(data_);
}

Result<PinnedMemory> PinnedMemory::allocate(std::shared_ptr<const CudaDevice> device, size_t bytes) {
  PinnedMemory memory;
  const CudaScope scope(*device);
  void* data = nullptr;
  const Error error = device->driver().cuMemHostAlloc(&data, bytes, kHostAllocPortable);
  if (error == kErrorOutOfMemory)
    return systemError(ErrorCode::NoPinnedMemory, "there is no pinned memory of ", bytes, " bytes left");
  TUTTI_TRY(check(device->driver(), error, "cuMemHostAlloc"));
  memory.device_ = std::move(device);
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  return memory;
}

}  // namespace tutti::cuda
