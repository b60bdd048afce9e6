// The order of a communicator's calls on a device: what they follow and what follows them, on whatever streams they
// are.  Owns the events for that, and says what streams are.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "src/device/cuda/stream.hpp"

namespace tutti {

/// One thread at a time, but for what is const.  With the device's context current.
class StreamOrder {
 public:
  explicit StreamOrder(std::shared_ptr<const cuda::CudaDevice> device) : device_(std::move(device)) {}
  /// First.  Errors: UnhandledCudaError.
  Status create();

  /// Calls on `streams` begin: what is enqueued on the first one from now on follows all of them, and earlier calls.
  Status begin(std::span<const cuda::Stream> streams);
  /// They are enqueued: all of `streams` follow them.
  Status end(std::span<const cuda::Stream> streams);
  /// Whether all that has been enqueued by calls outside of captures has ended.  In any context.
  bool idle() const;

  /// Whether `stream` is being captured into a graph.
  bool capturing(cuda::Stream stream) const;
  /// Which capture that is, by a number of its own; 0: none.
  uint64_t captureOf(cuda::Stream stream) const;
  /// Whether calls can be enqueued on the stream.  Errors: InvalidArgument: it is another device's, or gone;
  /// InvalidUsage: the legacy default stream, while a stream that it would wait for is captured; one whose capture has
  /// been invalidated.
  Status check(cuda::Stream stream) const;

 private:
  Result<uint64_t> numberOf(cuda::Stream stream) const;

  std::shared_ptr<const cuda::CudaDevice> device_;
  cuda::EventHandle fork_, join_, done_;
  std::optional<uint64_t> last_;  // number of the stream of the last call outside of captures
};

}  // namespace tutti
