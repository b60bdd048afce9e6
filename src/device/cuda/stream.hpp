// What is enqueued on a CUDA stream: copies, and waits for and writes of 32-bit words.
#pragma once

#include <memory>
#include <vector>

#include "src/base/assert.hpp"
#include "src/device/cuda/device.hpp"

namespace tutti::cuda {

/// The stream that a communicator's current call enqueues on.  One thread at a time, with the device's context current.
/// Nothing here waits.  All of it can be captured into a graph: no value depends on how often it has run.
///
/// Waits and writes that follow each other are gathered and enqueued as one: the driver, and the device, take little
/// longer for several than for one (cuStreamBatchMemOp).  So whoever tells another thread that a write is enqueued, or
/// enqueues something else, calls flush() first; copy() does.
class StreamOps {
 public:
  explicit StreamOps(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}

  const std::shared_ptr<const CudaDevice>& device() const { return device_; }
  /// To enqueue something else on it.  Nothing is gathered.
  Stream stream() const {
    TUTTI_ASSERT(gathered_.empty());
    return stream_;
  }
  /// captured: whether what is enqueued goes into a graph.
  void use(Stream stream, bool captured = false) {
    stream_ = stream;
    captured_ = captured;
    gathered_.clear();  // of a call that has failed
  }
  bool captured() const { return captured_; }

  Status copy(void* dst, const void* src, size_t bytes);
  /// Goes on when *word == value.
  Status waitFor(Address word, uint32_t value) { return gather({kOperationWait, word, value, kWaitEqual}); }
  /// Goes on when *word has come to value, counting up with overflow.
  Status waitUntil(Address word, uint32_t value) { return gather({kOperationWait, word, value, kWaitGreaterOrEqual}); }
  /// What was enqueued before is visible to whoever sees the value.
  Status write(Address word, uint32_t value) { return gather({kOperationWrite, word, value}); }
  /// Enqueues the waits and writes that have been gathered.
  Status flush();

 private:
  Status gather(const WordOperation& operation);

  std::shared_ptr<const CudaDevice> device_;
  Stream stream_ = nullptr;
  bool captured_ = false;
  std::vector<WordOperation> gathered_;
};

/// A CUDA event without timing.  Empty, or made for a device.
class EventHandle {
 public:
  EventHandle() = default;
  ~EventHandle();
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;
  /// Errors: UnhandledCudaError.
  Status create(std::shared_ptr<const CudaDevice> device);
  Event get() const { return event_; }

 private:
  std::shared_ptr<const CudaDevice> device_;
  Event event_ = nullptr;
};

}  // namespace tutti::cuda
