#include "src/device/cuda_stream.hpp"

namespace tutti::cuda {

Status StreamOps::copy(void* dst, const void* src, size_t bytes) const {
  if (bytes == 0 || dst == src) return {};
  TUTTI_CUDA(device_->driver(), cuMemcpyAsync(addressOf(dst), addressOf(src), bytes, stream_));
  return {};
}

Status StreamOps::waitFor(Address word, uint32_t value) const {
  TUTTI_CUDA(device_->driver(), cuStreamWaitValue32(stream_, word, value, kWaitEqual));
  return {};
}

Status StreamOps::waitUntil(Address word, uint32_t value) const {
  TUTTI_CUDA(device_->driver(), cuStreamWaitValue32(stream_, word, value, kWaitGreaterOrEqual));
  return {};
}

Status StreamOps::write(Address word, uint32_t value) const {
  TUTTI_CUDA(device_->driver(), cuStreamWriteValue32(stream_, word, value, 0));
  return {};
}

Status EventHandle::create(std::shared_ptr<const CudaDevice> device) {
  device_ = std::move(device);
  const CudaScope scope(*device_);
  TUTTI_CUDA(device_->driver(), cuEventCreate(&event_, kEventDisableTiming));
  return {};
}

EventHandle::~EventHandle() {
  if (event_ == nullptr) return;
  const CudaScope scope(*device_);
  device_->driver().cuEventDestroy(event_);
}

}  // namespace tutti::cuda
