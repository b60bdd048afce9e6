// What ranks share whose blocks walk plans on the device (src/exec/kernels/walk_body.hpp): the ends of their links,
// and, among ranks of one process on one device, seats at the launch that carries all of them.
//
// One launch for all ranks of a process on a device, by the lowest of them, because blocks that wait for each other
// have to be on the device together, and the driver sees to that within a launch alone: a cooperative one starts when
// all of its blocks have room at once, and before that none does.  What it does not promise is that there ever is room.
// Kernels of others that spin for something hold their multiprocessors, and where they spin for what only comes after
// this launch, neither ends.  So the device tells the host when a launch starts, the host notices where that takes long
// (src/comm/cuda/launch_watch.hpp), and ranks that share one launch then go by streams.  Launches on several devices
// that wait for each other have no such promise between them at all: only who asks for them gets them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/collective/fingerprint.hpp"
#include "src/device/cuda/pinned.hpp"
#include "src/device/cuda/stream.hpp"
#include "transport/cuda/ipc_memory.hpp"

namespace tutti::cuda {

/// Where a rank says what it has for the launch.  Written by the rank until it is Offered, read by the launcher then.
struct LaunchSeat {
  enum State : uint32_t { Empty, Offered, Taken, Launched };
  struct Call {
    Fingerprint call;
    const void* input = nullptr;
    void* output = nullptr;
  };
  std::atomic<uint32_t> state{Empty};
  std::vector<Call> calls;
  const void* program = nullptr;  // of the one call, if blocks walk its plan
  uint32_t lanes = 0;             // of that
  bool busy = false;              // its stream has work that the launch must follow: ResidentMemory::ready
  size_t launched = 0;  // by the launcher: how many calls, from the first; read when it has told of the launch
  /// Collectives count from 1, in every rank alike.  Up to which one the rank has settled whether blocks walk its plan
  /// ...
  uint64_t settled = 0;
  /// ... and from which one on none does: as the launcher last told the rank, who keeps a copy in its own seat.
  uint64_t byStreamsFrom = ~uint64_t{0};
};

/// One rank's part.  Kept by all ranks of its process that use it: their blocks may still write here when it is done.
struct ResidentMemory {
  uint64_t id = 0;     // in ProcessTable<ResidentMemory>
  OfferedMemory ends;  // whose heads are zero at first
  PinnedMemory words;  // see below; each in a line of its own
  LaunchSeat seat;
  // Of the rank that launches, but not into graphs:
  std::atomic<uint32_t> launches{0};  // with overflow
  std::atomic<uint32_t> blocks{0};    // of the last one
  std::atomic<bool> heldUp{false};    // one did not start in time
  EventHandle ready;                  // of the rank's stream at its call, if it was busy
  EventHandle done;                   // of the launch, if this rank is the one who launches

  static constexpr size_t kWordStride = 64;
  /// Nonzero has the rank's blocks leave.
  uint32_t* abortWord() const { return word(0); }
  /// The number of the last launch that its stream has come to, by the stream; of the last that has started, by it.
  uint32_t* reachedWord() const { return word(1); }
  uint32_t* startedWord() const { return word(2); }
  static constexpr size_t kWords = 3;
  uint32_t reached() const { return __atomic_load_n(reachedWord(), __ATOMIC_ACQUIRE); }
  uint32_t started() const { return __atomic_load_n(startedWord(), __ATOMIC_ACQUIRE); }
  /// Any thread.
  void leave() const { __atomic_store_n(abortWord(), 1u, __ATOMIC_RELEASE); }

 private:
  uint32_t* word(size_t number) const { return reinterpret_cast<uint32_t*>(words.data() + number * kWordStride); }
};

/// Of all ends of a rank.
struct ResidentRoom {
  size_t nEnds = 0;
  size_t endBytes = 0;
  size_t headBytes = 0;  // of each, that have to be zero
};

/// readers: of the ends.  Errors: as DeviceMemory and PinnedMemory; waits for the device once, so only while a
/// communicator comes up.
Result<std::shared_ptr<ResidentMemory>> makeResidentMemory(const std::shared_ptr<const CudaDevice>& device,
                                                           const ResidentRoom& room,
                                                           std::shared_ptr<const Readers> readers);
/// What a rank tells its peers of it, as bytes.
std::string residentCard(const ResidentMemory& memory, const CudaDevice& device);

/// A peer's memory as this process sees it.
class PeerResident {
 public:
  /// sameProcess: whether the card is of this process.  Errors: RemoteError: a card that makes no sense, or memory that
  /// cannot be opened.
  static Result<std::unique_ptr<PeerResident>> open(const std::string& card, bool sameProcess,
                                                    std::shared_ptr<const CudaDevice> device);
  PeerResident(const PeerResident&) = delete;
  PeerResident& operator=(const PeerResident&) = delete;

  /// Another process's memory is closed; nothing uses it any more.
  void close() { opened_ = IpcMemory(); }

  std::byte* ends() const { return reinterpret_cast<std::byte*>(ends_); }
  /// Null for another process's.
  ResidentMemory* shared() const { return shared_.get(); }

 private:
  PeerResident() = default;
  std::shared_ptr<ResidentMemory> shared_;
  IpcMemory opened_;  // of another process
  Address ends_ = 0;
};

}  // namespace tutti::cuda
