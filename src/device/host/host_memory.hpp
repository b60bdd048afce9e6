// Host memory for tuttiMemAlloc: memory that every rank of this host can be given a mapping of.
//
// The table of allocations is global to the process, and must be: tuttiMemAlloc names no communicator, and later any
// communicator may be handed a pointer into any allocation.  All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/base/fd.hpp"
#include "src/base/status.hpp"

namespace tutti {

/// Names one allocation on this host: 128 random bits, never used twice, so that no peer takes one for another.
struct AllocationId {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const AllocationId&) const = default;
};

/// Where a piece of memory lies: `offset` bytes into an allocation, of `allocated` bytes in all.
struct HostSpan {
  AllocationId id;
  size_t offset = 0;
  size_t allocated = 0;
  bool adopted = false;  // the caller's (adopted_memory.hpp, libtutti_malloc.so), who may take it back at any time
};

/// `bytes` of page-aligned (from 2 MiB up: 2 MiB-aligned), zeroed memory with all its pages present.  0 gives nullptr.
/// Errors: SystemError when the machine does not have that much left.
Result<void*> hostAlloc(size_t bytes);

/// Free what hostAlloc gave; null is allowed.  The pages go back to the system at once, even while peers still map them
/// (they would read zeros).  Errors: InvalidArgument if `ptr` is not the start of a live allocation.
Status hostFree(void* ptr);

/// The allocation that holds all of [ptr, ptr + bytes), if there is one.
std::optional<HostSpan> hostLookup(const void* ptr, size_t bytes);

/// False: hostLookup() finds nothing that begins there.  Takes no lock.
bool hostMayHold(const void* ptr);

/// hostLookup(), and what it finds shows these bytes to those who map it, until they change: of adopted memory what
/// shares pages with other memory is copied.
std::optional<HostSpan> hostOffer(const void* ptr, size_t bytes);

/// Whether it lies in memory of libtutti_malloc.so that others may map already.
bool inArena(const void* ptr, size_t bytes);

/// A descriptor of the allocation's memfd, for peers to map.  Errors: InvalidUsage if it has been freed.
Result<Fd> hostShare(const AllocationId& id);

/// How many allocations have been freed: when it grows, some may not exist any more.
uint64_t hostFrees();

/// Whether the allocation still exists.
bool hostAlive(const AllocationId& id);

}  // namespace tutti
