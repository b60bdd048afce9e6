// How one rank's calls are carried out: on the host (host_executor.hpp), or on a CUDA device (cuda/executor.hpp).
//
// All that the rest of the communicator knows of it.  A call that KnownCalls knows asks nothing here.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/comm/cuda/reach.hpp"
#include "src/comm/plans.hpp"
#include "src/device/host/host_stream.hpp"
#include "src/exec/progress_engine.hpp"
#include "transport/services.hpp"
#include "transport/transport.hpp"
#include "tutti/tutti.h"

namespace tutti {

class Batch;

/// Who carries calls out: a thread, the progress engine by the queue of a CUDA rank's proxy, or the calling thread.
struct Carrier {
  HostStream* thread = nullptr;
  ProgressQueue* proxy = nullptr;
  bool operator==(const Carrier&) const = default;
  bool isCaller() const { return thread == nullptr && proxy == nullptr; }
};

/// With the communicator's turn, but for what says more.
class Executor {
 public:
  virtual ~Executor() = default;

  // While ranks join, in this order:
  /// Tries what `reach` supposes.  Gives the ranks that refused, with reasons.  Errors: SystemError.
  virtual Result<Refusals> tryReach(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors) = 0;
  /// The communicator's layout says how calls are carried out: prepares for that, and says in `addresses` what the
  /// other ranks must know.  Errors: memory; UnhandledCudaError.
  virtual Status meet(const std::vector<PeerDescriptor>& descriptors, PeerDescriptor* addresses) = 0;
  /// There are links, and all addresses are known: opens what the others offer.  Gives what the stray watch looks at
  /// beside calls; null: nothing.  Errors: memory; those of links; RemoteError; Timeout.
  virtual Result<std::function<bool()>> open() = 0;

  // For plans:
  /// The endpoint of a lane to a peer, or null while it comes up.  Errors: as Links::endpoint; memory.
  virtual Result<Endpoint*> endpoint(int peer, int lane) = 0;
  /// The same, whose messages travel as `code`, if the two are on different hosts.  Errors: InternalError,
  /// where some ranks are on devices: such communicators are refused.
  virtual Result<Endpoint*> narrowed(int /*peer*/, int /*lane*/, const WireCode& /*code*/) {
    return internalError(ErrorCode::PartMisused, "messages of ranks on devices do not travel in narrower formats");
  }
  /// Which messages to a peer are posted.
  Posting posting(int peer) const {
    return postings_.empty() ? Posting::Nothing : postings_[static_cast<size_t>(peer)];
  }
  /// The same by rank; empty where nothing is posted to anyone.
  const std::vector<Posting>& postings() const { return postings_; }
  /// Lends plans their scratch memory; null: they have their own.
  virtual ScratchLender scratch() = 0;
  /// At least `bytes` for input that is scaled or copied, kept between calls.  Errors: memory.
  virtual Result<std::byte*> workspace(size_t bytes) = 0;
  /// Makes what carries out the bound plan of `entry`.  resident: by blocks on the device.  Errors: memory.
  virtual Status equip(PlanEntry* entry, bool resident) = 0;

  // For calls:
  /// Without the turn.
  virtual std::unique_ptr<Batch> newBatch() = 0;
  /// What carries out a call on `stream`.  own: the communicator's thread, or null.  Without the turn.
  virtual Carrier carrier(tuttiStream_t stream, HostStream* own) const = 0;
  /// The number of the capture that `stream` is in; 0: none.  Any thread.
  virtual uint64_t captureOf(tuttiStream_t stream) const = 0;
  /// Whether calls can be made on `stream`.  Errors: InvalidArgument; InvalidUsage.  Any thread.
  virtual Status checkStream(tuttiStream_t stream) const = 0;
  /// Whether calls can use the memory, an argument of this name.  Errors: InvalidArgument.  Any thread.
  virtual Status checkMemory(const void* memory, const char* name) const = 0;
  /// How transports get at the memory of calls, where that is a device's; else null.
  virtual std::shared_ptr<const AdapterAccess> adapterAccess() const { return nullptr; }
  /// Where the buffers of calls are.
  MemoryKind memory() const { return memory_; }

  /// Lets peers use registered memory where it lies, under `handle`.  Any thread.  Errors: InvalidArgument:
  /// checkMemory(); SystemError; UnhandledCudaError.
  virtual Status lend(void* handle, const void* buffer, size_t bytes) = 0;
  /// Takes the turn: ends that, and waits for peers.  Errors: InvalidUsage: calls may still use the memory, and it
  /// stays lent; Timeout: a peer does.
  virtual Status endLending(void* handle) = 0;

  /// No call comes any more: waits for what streams still do, and lets go of what is the peers'.  Without the turn.
  /// Errors: what ends the communicator.
  virtual Status finalize() = 0;
  /// Frees this, which `self` owns.  Links and control may go after it, though streams may have yet to leave waits.
  virtual void retire(std::unique_ptr<Executor> self) { self.reset(); }

 protected:
  explicit Executor(MemoryKind memory) : memory_(memory) {}
  std::vector<Posting> postings_;

 private:
  MemoryKind memory_;
};

}  // namespace tutti
