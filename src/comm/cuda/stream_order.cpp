#include "src/comm/cuda/stream_order.hpp"

namespace tutti {

Status StreamOrder::create() {
  for (cuda::EventHandle* event : {&fork_, &join_, &done_}) TUTTI_TRY(event->create(device_));
  return {};
}

bool StreamOrder::capturing(cuda::Stream stream) const {
  int status = cuda::kCaptureNone;
  return device_->driver().cuStreamIsCapturing(stream, &status) == cuda::kSuccess && status != cuda::kCaptureNone;
}

uint64_t StreamOrder::captureOf(cuda::Stream stream) const {
  int status = cuda::kCaptureNone;
  uint64_t capture = 0;
  const cuda::Error error = device_->driver().cuStreamGetCaptureInfo(stream, &status, &capture);
  return error == cuda::kSuccess && status == cuda::kCaptureActive ? capture : 0;
}

// Found out later, it would break the communicator, and a capture.
Status StreamOrder::check(cuda::Stream stream) const {
  const cuda::Driver& driver = device_->driver();
  int capture = cuda::kCaptureNone;
  const cuda::Error error = driver.cuStreamIsCapturing(stream, &capture);
  if (error == cuda::kErrorCaptureImplicit) {
    return invalidUsage(
        ErrorCode::CaptureBroken,
        "stream is the legacy default stream, on which nothing can be enqueued while a stream that is not "
        "cudaStreamNonBlocking is being captured");
  }
  if (error == cuda::kErrorInvalidHandle) {
    return invalidArgument(ErrorCode::Stream, "stream is none of CUDA's, or has been destroyed");
  }
  TUTTI_TRY(cuda::check(driver, error, "cuStreamIsCapturing"));
  if (capture == cuda::kCaptureInvalidated) {
    return invalidUsage(ErrorCode::CaptureBroken,
                        "the capture of stream has been invalidated, by this thread or another; end it first");
  }
  if (stream == nullptr || stream == cuda::kStreamLegacy || stream == cuda::kStreamPerThread) return {};
  cuda::Context context = nullptr;
  TUTTI_CUDA(driver, cuStreamGetCtx(stream, &context));
  if (context == device_->context()) return {};
  return invalidArgument(
      ErrorCode::Stream,
      "stream is of another device or context; this communicator is on the primary context of CUDA device ",
      device_->ordinal());
}

// Handles do not tell streams apart: a new stream may have that of one that has been destroyed, and each thread has a
// default stream of its own by one and the same handle.
Result<uint64_t> StreamOrder::numberOf(cuda::Stream stream) const {
  unsigned long long number = 0;
  TUTTI_CUDA(device_->driver(), cuStreamGetId(stream, &number));
  return uint64_t{number};
}

// A capture sees only itself: what came before it is its launcher's to order.
Status StreamOrder::begin(std::span<const cuda::Stream> streams) {
  const cuda::Driver& driver = device_->driver();
  const cuda::Stream main = streams.front();
  for (const cuda::Stream other : streams.subspan(1)) {
    TUTTI_CUDA(driver, cuEventRecord(fork_.get(), other));
    TUTTI_CUDA(driver, cuStreamWaitEvent(main, fork_.get(), 0));
  }
  if (!last_ || capturing(main)) return {};
  TUTTI_ASSIGN(const uint64_t number, numberOf(main));
  if (*last_ != number) TUTTI_CUDA(driver, cuStreamWaitEvent(main, done_.get(), 0));
  return {};
}

Status StreamOrder::end(std::span<const cuda::Stream> streams) {
  const cuda::Driver& driver = device_->driver();
  const cuda::Stream main = streams.front();
  if (!capturing(main)) {
    TUTTI_CUDA(driver, cuEventRecord(done_.get(), main));
    TUTTI_ASSIGN(last_, numberOf(main));
  }
  if (streams.size() > 1) TUTTI_CUDA(driver, cuEventRecord(join_.get(), main));
  for (const cuda::Stream other : streams.subspan(1)) TUTTI_CUDA(driver, cuStreamWaitEvent(other, join_.get(), 0));
  return {};
}

bool StreamOrder::idle() const {
  if (!last_) return true;
  const cuda::CudaScope scope(*device_);
  return device_->driver().cuEventQuery(done_.get()) != cuda::kErrorNotReady;
}

}  // namespace tutti
