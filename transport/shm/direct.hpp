// Reading a peer's memory without a copy by the peer: mappings of its tuttiMemAlloc memory, and process_vm_readv.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>

#include "src/device/host/host_memory.hpp"
#include "src/device/host/shared_memory.hpp"
#include "transport/services.hpp"

namespace tutti::shm {

/// One per transport: what it serves of its own process's allocations, and what it has mapped of others'.  Any thread.
/// Mappings are kept until the transport ends, or until there are more than kMaxMappings.
class AllocationExchange {
 public:
  explicit AllocationExchange(FdExchange& exchange) : exchange_(exchange) {}
  ~AllocationExchange();

  /// Peers may map allocation `id` from now on.  Cheap after the first time.
  Status serve(const AllocationId& id);
  /// The allocation `id` of rank `peer`.  Blocks the first time, while the descriptor is fetched (it is served before
  /// it is offered, so that this is a round trip).  Errors: RemoteError, Timeout, SystemError.
  Result<std::shared_ptr<const Mapping>> map(int peer, const AllocationId& id);

 private:
  static constexpr size_t kMaxMappings = 256;
  struct Mapped {
    std::shared_ptr<const Mapping> mapping;
    uint64_t lastUse = 0;
  };
  void dropFreed();
  void dropOldest();

  FdExchange& exchange_;
  std::mutex mutex_;
  std::map<AllocationId, Fd> served_;      // under mutex_; our own descriptors, for the allocation may be freed first
  std::map<AllocationId, Mapped> mapped_;  // under mutex_
  uint64_t uses_ = 0;                      // under mutex_
};

/// Copy [address, address + bytes) of process pid to dst.  Errors: RemoteError (the process or its memory is gone),
/// SystemError.
Status readProcess(pid_t pid, uint64_t address, std::byte* dst, size_t bytes);

}  // namespace tutti::shm
