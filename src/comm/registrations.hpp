// Memory that has been registered with a communicator: by the user, or of tuttiMemAlloc at its first use.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/device/host/adopted_memory.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// Any thread.  A registration is a promise that the memory stays; what can be read directly, and how, is the
/// transports' business (memory of tuttiMemAlloc and what can be adopted by mapping, any memory by process_vm_readv or
/// within a process; of CUDA devices what transport/cuda/memory_exchange.hpp says).  Transports whose requests use
/// registered memory alone (LinkProfile::registers) are told here, once of each range.
class Registrations {
 public:
  /// A transport to tell of memory of these kinds.  Before the first registration.
  void tell(Transport* transport, MemoryKinds kinds) { told_.emplace_back(transport, kinds); }
  bool tellsAnyone() const { return !told_.empty(); }

  /// adopts: peers map memory of the host (src/device/host/adopted_memory.hpp), if it can be; a log line says why not.
  /// Errors: those of Transport::registerMemory; nothing is registered then.  Memory of a device that a transport does
  /// not register is staged there.
  Result<void*> add(const Memory& memory, bool adopts);
  bool has(void* handle) const;
  /// Transports use it no longer.  Errors: InvalidArgument if `handle` is not one that add() gave and that is still
  /// there.
  Status remove(void* handle);

  /// A call is about to use [data, data + bytes) of the host: registers the allocation of tuttiMemAlloc that holds it,
  /// if there is one, and forgets those that have been freed.  What cannot be registered is polled.
  void use(const void* data, size_t bytes);
  /// The communicator ends, and its transports after this.
  void clear();

 private:
  struct Range {
    Memory memory;
    std::unique_ptr<Adoption> adoption;  // outlives `kept`
    std::vector<std::unique_ptr<MemoryRegistration>> kept;
  };
  /// Adds to range->kept.
  Status registerWithAll(Range* range) const;

  std::vector<std::pair<Transport*, MemoryKinds>> told_;
  mutable std::mutex mutex_;                 // guards what follows
  std::map<uintptr_t, Range> ranges_;        // by handle
  std::map<AllocationId, Range> allocated_;  // of tuttiMemAlloc
  std::atomic<uint64_t> frees_{0};           // hostFrees() when allocated_ was last looked through
  uintptr_t next_ = 1;
  mutable std::atomic<bool> toldOfDevice_{false};  // that a transport does not register its memory
};

}  // namespace tutti
