// The calls of a rank that take a thread of the host, because a link of the rank's does: its streams come to a call and
// wait, the progress engine's thread carries it out on a stream of its own, and a word in device memory lets them go
// on.
//
// Outside of captures the thread learns by an event that streams have come, and calls are numbered: those of a
// communicator that has failed end before their streams come.  In a graph a host function tells the thread, each time
// that the graph is replayed; the word alternates, as a graph holds constants, and calls of one communicator follow one
// another in the program's order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/comm/cuda/gates.hpp"
#include "src/device/cuda/stream.hpp"
#include "src/exec/progress_engine.hpp"

namespace tutti {

/// One thread at a time and the job's, but for what graphs call.
class CudaProxy {
 public:
  /// ops: of the jobs, borrowed.  gate and replayed: two words of its device, zero.  sharesDevice: with other ranks of
  /// the process.
  static Result<std::unique_ptr<CudaProxy>> create(cuda::StreamOps& ops, cuda::Address gate, cuda::Address replayed,
                                                   bool sharesDevice);
  /// Waits for its jobs.  What it has closed opens.
  ~CudaProxy();
  CudaProxy(const CudaProxy&) = delete;
  CudaProxy& operator=(const CudaProxy&) = delete;

  /// Carries jobs out.
  ProgressQueue* queue() const { return queue_.get(); }
  /// What jobs enqueue on; its own.
  cuda::Stream stream() const { return stream_; }
  /// Where ranks that are threads share the device; else null.
  const std::shared_ptr<DeviceGates>& gates() const { return gates_; }

  /// A call that a stream has come to, and whose end it waits for.
  struct Submitted {
    std::shared_ptr<cuda::EventHandle> ready;  // what its work must follow; null: it is replayed
    uint32_t number = 0;
  };
  /// By the caller: `stream` comes to a call that a job will carry out, and waits for its end.  Errors:
  /// UnhandledCudaError; nothing waits then.
  Result<Submitted> submit(cuda::Stream stream);
  /// The same in a capture: each replay enqueues what `makeJob` gives, which ends in endJob({}).  makeJob is called on
  /// a thread of the driver's, and must not call the driver.
  using MakeJob = std::function<std::unique_ptr<ProgressJob>()>;
  Status capture(cuda::Stream stream, MakeJob makeJob);
  /// Whether the stream has come to the call.
  bool reached(const Submitted& job) const;
  /// By the job: what is enqueued from now on follows the stream.
  Status beginJob(const Submitted& job);
  /// Then, whatever became of it, in the order of submit(): that its work is enqueued.
  void endJob(const Submitted& job);
  /// Whether something that jobs have enqueued is still to be done.
  bool busy() const;

 private:
  /// A captured call.  Graphs know it by its number, as they may outlive the communicator.
  struct Replay {
    uint64_t id = 0;
    std::mutex mutex;
    CudaProxy* proxy = nullptr;  // under mutex; null: it has gone
    MakeJob makeJob;
  };
  static void onReplay(void* id);
  void begin(const Replay& replay);
  CudaProxy(cuda::StreamOps& ops, cuda::Address gate, cuda::Address replayed)
      : device_(ops.device()), gate_(gate), replayed_(replayed), ops_(ops) {}
  void close();
  void open();

  std::shared_ptr<const cuda::CudaDevice> device_;
  cuda::Address gate_, replayed_;
  cuda::StreamOps& ops_;
  cuda::Stream stream_ = nullptr;
  std::shared_ptr<DeviceGates> gates_;
  std::atomic<int> closed_{0};  // of this rank's
  uint32_t submitted_ = 0;      // with overflow
  std::vector<std::shared_ptr<Replay>> replays_;
  std::unique_ptr<ProgressQueue> queue_;
};

}  // namespace tutti
