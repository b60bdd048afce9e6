#include "src/device/cuda/stream.hpp"

namespace tutti::cuda {

Status StreamOps::copy(void* dst, const void* src, size_t bytes) {
  if (bytes == 0 || dst == src) return {};
  TUTTI_TRY(flush());
  TUTTI_CUDA(device_->driver(), cuMemcpyAsync(addressOf(dst), addressOf(src), bytes, stream_));
  return {};
}

Status StreamOps::gather(const WordOperation& operation) {
  if (gathered_.size() == kMostWordOperations) TUTTI_TRY(flush());
  gathered_.push_back(operation);
  return {};
}

Status StreamOps::flush() {
  if (gathered_.empty()) return {};
  const auto count = static_cast<unsigned>(gathered_.size());
  const Error error = device_->driver().cuStreamBatchMemOp(stream_, count, gathered_.data(), 0);
  gathered_.clear();
  return check(device_->driver(), error, "cuStreamBatchMemOp");
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
