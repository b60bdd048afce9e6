// Memory of a rank's device that its peers read where it lies, instead of copies that pass through slots.
//
// Lent is only what has been registered.  Of pages of the driver's virtual memory (tuttiMemAlloc, and allocators like
// it) a reader has a mapping of its own, in whatever process it is, and may read it even when the owner has freed the
// memory or died meanwhile.  Memory of cuMemAlloc other processes open by IPC handle, and CUDA leaves it undefined what
// happens when it is freed under them.  So its owner, when it ends a registration, calls it back, and waits until all
// have closed it; their exchanges do that by a thread of their own, as their callers may be anywhere.
//
//   owner   lend(): serves a card (readers.hpp) that says whether memory is lent still, and what it takes to open it
//           each message says where in which registration it is (LentPlace)
//   reader  address(): opens the memory at the first message that is in it; closeEnded() unmaps pages that are lent no
//           longer, the thread closes what is called back
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "src/device/cuda/virtual.hpp"
#include "transport/cuda/call_backs.hpp"
#include "transport/cuda/cards.hpp"
#include "transport/services.hpp"

namespace tutti::cuda {

/// A registration, kept by its owner.
struct LentMemory;

/// Whose an exchange is.
struct ExchangeRank {
  FdExchange& services;  // borrowed
  int rank = 0;
  uint64_t processId = 0;  // of this process
  /// After a failure: has this rank's device read nothing of others' any more; false if it still does.  By the
  /// exchange's thread, until stop().
  std::function<bool()> settle;
};

/// One for each communicator and rank.  Any thread, but address() and closeEnded(), which are for one at a time.
class MemoryExchange {
 public:
  MemoryExchange(std::shared_ptr<const CudaDevice> device, ExchangeRank self);
  /// No device reads what this rank has opened any more.  Waits a second at most for readers of what is lent, after a
  /// failure.
  ~MemoryExchange();
  MemoryExchange(const MemoryExchange&) = delete;
  MemoryExchange& operator=(const MemoryExchange&) = delete;

  /// Lends [buffer, buffer + bytes) under `key` if it can be lent; false if not.  Errors: SystemError;
  /// UnhandledCudaError.
  Result<bool> lend(uint64_t key, const void* buffer, size_t bytes);
  /// What was lent under `key` is lent no longer.  Nothing if it was not.
  void end(uint64_t key, MemoryEnd how);
  /// The lowest rank that still has open what was lent under `key` and has ended, of those whom that concerns.  None:
  /// the owner may free the memory, and `key` is forgotten.
  std::optional<int> reader(uint64_t key);
  /// Where [data, data + bytes) is lent, if it is.
  std::optional<LentPlace> placeOf(const void* data, size_t bytes) const;

  /// `bytes` of what `peer`, of process `peersProcess`, has lent, as this rank's device sees it.  Blocks at the first
  /// place in a registration, for round trips to the peer's process, which need nothing of its callers.  captured:
  /// graphs will have the address, so a mapping of pages stays as long as this.  Errors: RemoteError: it is lent no
  /// longer, or cannot be opened; SystemError.
  Result<const std::byte*> address(int peer, uint64_t peersProcess, const LentPlace& place, size_t bytes,
                                   bool captured);
  /// Whether something mapped is lent no longer.
  bool hasEnded() const;
  /// Unmaps what is lent no longer.  No device reads it any more.
  void closeEnded();
  /// Ends the thread; settle() is not called any more.
  void stop();
  /// Stops, and lends nothing any more, as the destructor: services are not used after this.  What this rank has opened
  /// stays open.
  void retire();
  /// Closes all that this rank has opened.  No device reads it, and none will.
  void closeAll();

 private:
  /// What this rank has opened.
  struct Opened {
    std::shared_ptr<LentMemory> shared;  // of this process: keeps its card
    Reading reading;                     // of another process; locked while `memory` is open
    DeviceMapping mapping;               // of pages
    IpcMemory memory;                    // by handle
    Address address = 0;
    size_t bytes = 0;
    bool captured = false;
    MemoryEnd ended() const;
    bool calledBack(MemoryEnd how) const { return memory.address() != 0 && ended() == how; }
    bool unmappable() const { return memory.address() == 0 && !captured && ended() != MemoryEnd::Open; }
  };
  Status serve(const LentMemory& lent, const Fd& pages);
  Result<Opened> open(int peer, uint64_t peersProcess, uint64_t id);
  Result<Opened> openHere(uint64_t id) const;
  Status openByHandle(int peer, const LentCard& card, Opened* opened);
  void withdraw(LentMemory& lent, MemoryEnd how);
  void closeCalledBack();

  std::shared_ptr<const CudaDevice> device_;
  ExchangeRank self_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<LentMemory>> lent_;  // by key; under mutex_
  Bell bell_;                                             // under mutex_
  mutable std::mutex openedMutex_;
  std::map<std::pair<int, uint64_t>, Opened> opened_;  // by peer and id; under openedMutex_
  CallBacks callBacks_;
};

}  // namespace tutti::cuda
