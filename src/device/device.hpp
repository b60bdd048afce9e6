// One device as who computes on it sees it: its memory, the order of its work, kernels.  Two kinds: the host, and CUDA.
//
// On the host all is done when a call returns.  On CUDA it is enqueued on the stream of the calling thread
// (setThreadStream), and nothing waits but what says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "src/base/status.hpp"

namespace tutti {

/// The same kernels for both kinds; they live as long as the process.  Each takes one argument, a struct, by address.
struct KernelSet {
  const char* what = "";                                     // whose they are, for errors: "training layers"
  const void* image = nullptr;                               // for CUDA: what cuModuleLoadData takes ...
  std::span<const char* const> names;                        // ... and what they are called there
  std::span<void (*const)(const void* argument)> functions;  // on the host: one thread does all
};

/// One user's handle of a device.  Threads: on the host any number at a time; on CUDA one.  Errors of all that give a
/// Status or a Result: on CUDA UnhandledCudaError, which may be that of anything enqueued before.
class Device {
 public:
  static constexpr int kHost = -1;
  /// On CUDA waits for what is enqueued if memory has been allocated, all of which is freed.
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// CUDA's number of it, or kHost.
  int ordinal() const { return ordinal_; }
  bool onHost() const { return ordinal_ == kHost; }

  /// For calls of tutti.h: they follow what was enqueued before.  NULL on the host.
  virtual Result<tuttiStream_t> stream() = 0;
  /// A stream of this handle's, for a thread to set as its own; ends with the handle.  NULL on the host.
  virtual Result<tuttiStream_t> ownStream() = 0;

  /// Memory of the device, of any contents, in the order of the stream; 0 bytes: NULL.  Errors: SystemError when the
  /// device has not that much left.
  virtual Result<void*> allocate(size_t bytes) = 0;
  /// Memory of allocate(), or NULL.  Waits for nothing: it may be handed out again at once, to work that follows that
  /// of the stream that it was released on.
  virtual void release(void* memory) noexcept = 0;
  /// Memory that was released goes back to the system; waits for what is enqueued.
  virtual Status trim() = 0;
  /// Room, never NULL, for what this thread enqueues next, until its next call of scratch() on the same stream.  Shared
  /// with other handles of the device, and kept while there are any.  Errors: as allocate().
  virtual Result<void*> scratch(size_t bytes) = 0;

  /// Between memories of the device, which do not overlap.
  virtual Status copy(void* to, const void* from, size_t bytes) = 0;
  virtual Status zero(void* at, size_t bytes) = 0;
  /// From and to any memory of the host; both wait until it is done, and so for all that was enqueued before.
  Status put(void* to, const void* host, size_t bytes) {
    TUTTI_TRY(copy(to, host, bytes));
    return wait();
  }
  Status get(void* host, const void* from, size_t bytes) {
    TUTTI_TRY(wait());  // here: CUDA waits itself before it copies to pageable memory, and cannot give up
    return put(host, from, bytes);
  }
  /// kernel: its number in the set that the device was opened with.  items: how many things its threads stride over.
  virtual Status launch(size_t kernel, const void* argument, uint64_t items) = 0;

  /// The end of something that was enqueued; NULL: it is over.  Copies stand for the same one; may outlive the handle.
  using Mark = std::shared_ptr<void>;
  /// Of what has been enqueued on the thread's stream.
  virtual Result<Mark> mark() = 0;
  /// Whether it is over.  Waits for nothing.
  virtual Result<bool> done(const Mark& mark) = 0;
  /// What is enqueued from now on waits for it.
  virtual Status follow(const Mark& mark) = 0;
  /// Runs the task, whose exceptions pass through.  What it enqueues follows what was enqueued before, on a stream of
  /// this handle's; nothing follows it before follow() of the mark.
  virtual Result<Mark> beside(const std::function<void()>& task) = 0;
  /// Waits for all that was enqueued, and ends when that fails.
  virtual Status wait() = 0;

 protected:
  explicit Device(int ordinal) : ordinal_(ordinal) {}

 private:
  int ordinal_;
};

std::shared_ptr<Device> openHost(const KernelSet& kernels);

/// Errors: those of cuda::CudaDevice::open; InvalidUsage: the image has no kernels for this device.
Result<std::shared_ptr<Device>> openCuda(int ordinal, const KernelSet& kernels);

/// The stream, of CUDA, that devices enqueue on when this thread calls them; NULL, as at first: the default stream.
void setThreadStream(tuttiStream_t stream);

}  // namespace tutti
