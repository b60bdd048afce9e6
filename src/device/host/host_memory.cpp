#include "src/device/host/host_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "src/device/host/host_table.hpp"
#include "src/device/host/memory_map.hpp"
#include "src/malloc/interface.h"

namespace tutti {
namespace {

Result<Allocation> allocate(size_t bytes) {
  Allocation a;
  a.bytes = bytes;
  TUTTI_ASSIGN(a.id, newAllocationId());
  const bool huge = bytes >= kHugePageBytes;
  const size_t mapped = roundToPages(bytes);
  TUTTI_ASSIGN(a.fd, createSharedMemory(mapped));
  TUTTI_ASSIGN(a.mapping, Mapping::of(a.fd.get(), mapped, huge ? kHugePageBytes : 1));
  // Only an advice: most kernels are set to ignore it for shared memory (shmem_enabled).
  if (huge) madvise(a.mapping.data(), mapped, MADV_HUGEPAGE);
  if (!populate(a.mapping.data(), mapped))
    return errnoError(errno, ErrorCode::SharedMemoryRefused, cat("populating ", bytes, " bytes"));
  a.begin = a.mapping.data();
  return a;
}

// Under the table's lock.
const Allocation* find(const HostTable& t, const std::byte* data, size_t bytes) {
  auto at = t.byBegin.upper_bound(data);
  if (at == t.byBegin.begin()) return nullptr;
  const Allocation* a = (--at)->second;
  const bool seen = !a->isAdopted() || (a->adopted.visible && !a->adopted.apart);
  return seen && a->holds(data, bytes) ? a : nullptr;
}

HostSpan spanOf(const Allocation& a, const std::byte* data) {
  return {a.id, a.lead + static_cast<size_t>(data - a.begin), a.bytes, a.isAdopted()};
}

// Several messages may do so at a time: each finds its own bytes there, or writes what is there already.
void copyRests(const Allocation& a, const std::byte* data, size_t bytes) {
  const Adopted& adopted = a.adopted;
  const std::byte* const end = data + bytes;
  if (data < adopted.pages.begin && bytes != 0) {
    std::byte* const page = adopted.head.data() + adopted.head.bytes() - (adopted.pages.begin - data);
    std::memcpy(page, data, std::min<size_t>(bytes, static_cast<size_t>(adopted.pages.begin - data)));
  }
  if (end > adopted.pages.end) {
    const std::byte* const from = std::max<const std::byte*>(data, adopted.pages.end);
    std::memcpy(adopted.tail.data() + (from - adopted.pages.end), from, static_cast<size_t>(end - from));
  }
}

// Of libtutti_malloc.so, where it is preloaded.
std::optional<HostSpan> findInArena(const void* data, size_t bytes) {
  tuttiMallocPlace place{};
  if (tuttiMallocFind == nullptr || tuttiMallocFind(data, bytes, &place) == 0) return std::nullopt;
  return HostSpan{{place.id.high, place.id.low}, place.offset, place.arenaBytes, true};
}

}  // namespace

// Never destroyed: a program may free memory from its own exit handlers.
HostTable& hostTable() {
  static HostTable& t = *new HostTable;
  return t;
}

Result<AllocationId> newAllocationId() {
  AllocationId id;
  if (getrandom(&id, sizeof id, 0) != sizeof id) return errnoError(errno, ErrorCode::NoRandomBytes, "getrandom");
  return id;
}

Result<void*> hostAlloc(size_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  const size_t available = availableBytes();
  if (bytes > PTRDIFF_MAX / 2 || bytes > available) {
    return systemError(ErrorCode::NoMemory, "no memory for ", bytes, " bytes: ", available, " bytes are available");
  }
  TUTTI_ASSIGN(Allocation a, allocate(bytes));
  std::byte* const begin = a.begin;
  HostTable& t = hostTable();
  const std::lock_guard lock(t.mutex);
  const AllocationId id = a.id;
  Allocation& kept = t.all.emplace(id, std::move(a)).first->second;
  try {
    t.list(&kept);
  } catch (...) {
    t.all.erase(id);
    throw;
  }
  return static_cast<void*>(begin);
}

Status hostFree(void* ptr) {
  if (ptr == nullptr) return {};
  Allocation gone;  // unmapped after the lock is given up
  {
    HostTable& t = hostTable();
    const std::lock_guard lock(t.mutex);
    const auto at = t.byBegin.find(static_cast<std::byte*>(ptr));
    if (at == t.byBegin.end() || at->second->isAdopted()) {
      return invalidArgument(ErrorCode::NotOurMemory, "ptr ", ptr,
                             " was not returned by tuttiMemAlloc, or is already free; pass what it returned, once");
    }
    gone = std::move(*at->second);
    t.frees.fetch_add(1, std::memory_order_release);
    t.byBegin.erase(at);
    t.all.erase(gone.id);
  }
  // Peers may keep their mapping until their communicator ends; that must not keep the pages.
  fallocate(gone.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(gone.mapping.bytes()));
  return {};
}

std::optional<HostSpan> hostLookup(const void* ptr, size_t bytes) {
  if (std::optional<HostSpan> arena = findInArena(ptr, bytes)) return arena;
  const auto* data = static_cast<const std::byte*>(ptr);
  HostTable& t = hostTable();
  if (!t.mayHold(data)) return std::nullopt;
  const std::lock_guard lock(t.mutex);
  const Allocation* a = find(t, data, bytes);
  return a == nullptr ? std::nullopt : std::optional(spanOf(*a, data));
}

std::optional<HostSpan> hostOffer(const void* ptr, size_t bytes) {
  if (std::optional<HostSpan> arena = findInArena(ptr, bytes)) return arena;
  const auto* data = static_cast<const std::byte*>(ptr);
  HostTable& t = hostTable();
  if (!t.mayHold(data)) return std::nullopt;
  const std::lock_guard lock(t.mutex);
  const Allocation* a = find(t, data, bytes);
  if (a == nullptr) return std::nullopt;
  if (a->isAdopted()) copyRests(*a, data, bytes);
  return spanOf(*a, data);
}

bool inArena(const void* ptr, size_t bytes) { return findInArena(ptr, bytes).has_value(); }

Result<Fd> hostShare(const AllocationId& id) {
  Fd copy;
  {
    HostTable& t = hostTable();
    const std::lock_guard lock(t.mutex);
    const auto at = t.all.find(id);
    if (at != t.all.end()) copy = Fd(fcntl(at->second.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (at != t.all.end() && !copy.valid())
      return errnoError(errno, ErrorCode::SharedMemoryRefused, "duplicating a memfd");
  }
  if (!copy.valid() && tuttiMallocShare != nullptr) copy = Fd(tuttiMallocShare({id.high, id.low}));
  if (!copy.valid()) return invalidUsage(ErrorCode::StillInUse, "memory was freed while an operation used it");
  return copy;
}

bool hostMayHold(const void* ptr) { return tuttiMallocFind != nullptr || hostTable().mayHold(ptr); }

uint64_t hostFrees() { return hostTable().frees.load(std::memory_order_acquire); }

bool hostAlive(const AllocationId& id) {
  {
    HostTable& t = hostTable();
    const std::lock_guard lock(t.mutex);
    if (t.all.contains(id)) return true;
  }
  return tuttiMallocAlive != nullptr && tuttiMallocAlive({id.high, id.low}) != 0;
}

}  // namespace tutti
