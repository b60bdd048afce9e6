// Memory of a rank's device that its peers read where it lies, instead of copies that pass through slots.
//
// Lent is only what has been registered, and of that only pages of the driver's virtual memory (tuttiMemAlloc, and
// allocators like it): a reader has a mapping of its own, in whatever process it is, and may read it even when the
// owner has freed the memory or died meanwhile.  Of memory of cuMemAlloc CUDA leaves it undefined what a reader finds
// then, so that goes through slots.
//
//   owner   lend(): serves a descriptor of the pages, and a card that says whether they are lent still
//           each message says where in which registration it is (LentPlace)
//   reader  address(): maps the pages at the first message that is in them; closeEnded() unmaps what is lent no longer
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "src/device/cuda_virtual.hpp"
#include "src/device/shared_memory.hpp"
#include "transport/services.hpp"

namespace tutti::cuda {

/// Where a message lies: `offset` bytes into a registration of its sender's.  id 0: in a slot.  Crosses processes.
struct LentPlace {
  uint64_t id = 0;
  uint64_t offset = 0;
};

/// A registration, kept by its owner.
struct LentMemory;

/// One for each communicator and rank.  Any thread, but address() and closeEnded(), which are for one at a time.
class MemoryExchange {
 public:
  /// services: borrowed.  processId: of this process.
  MemoryExchange(std::shared_ptr<const CudaDevice> device, FdExchange& services, uint64_t processId);
  /// No device reads what this rank has mapped any more.
  ~MemoryExchange();
  MemoryExchange(const MemoryExchange&) = delete;
  MemoryExchange& operator=(const MemoryExchange&) = delete;

  /// Lends [buffer, buffer + bytes) under `key` if it can be lent; false if not.  Errors: SystemError;
  /// UnhandledCudaError.
  Result<bool> lend(uint64_t key, const void* buffer, size_t bytes);
  /// What was lent under `key` is lent no longer; readers that have mapped it may still do so.  Nothing if it was not.
  void end(uint64_t key);
  /// Where [data, data + bytes) is lent, if it is.
  std::optional<LentPlace> placeOf(const void* data, size_t bytes) const;

  /// `bytes` of what `peer`, of process `peersProcess`, has lent, as this rank's device sees it.  Blocks at the first
  /// place in a registration, for a round trip to the peer's process, which needs nothing of its callers.  captured:
  /// graphs will have the address, so the mapping stays as long as this.  Errors: RemoteError: it is lent no longer, or
  /// cannot be mapped.
  Result<const std::byte*> address(int peer, uint64_t peersProcess, const LentPlace& place, size_t bytes,
                                   bool captured);
  /// Whether something mapped is lent no longer.
  bool hasEnded() const;
  /// Unmaps what is lent no longer.  No device reads it any more.
  void closeEnded();

 private:
  /// Whether pages are lent still: in memory that the owner's process shares with its readers'.
  struct Card;
  /// What this rank has mapped.
  struct Opened {
    std::shared_ptr<LentMemory> shared;  // of this process: keeps its card
    Mapping card;                        // of another process
    DeviceMapping mapping;
    bool captured = false;
    bool ended() const;
  };
  Result<Opened> open(int peer, uint64_t peersProcess, uint64_t id) const;
  void withdraw(LentMemory& lent);

  std::shared_ptr<const CudaDevice> device_;
  FdExchange& services_;
  uint64_t processId_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<LentMemory>> lent_;  // by key; under mutex_
  std::map<std::pair<int, uint64_t>, Opened> opened_;     // by peer and id
};

}  // namespace tutti::cuda
