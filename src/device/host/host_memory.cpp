#include "src/device/host/host_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>

#include "src/base/forked.hpp"
#include "src/device/host/shared_memory.hpp"

namespace tutti {
namespace {

struct Allocation {
  AllocationId id;
  size_t bytes = 0;  // as asked for
  Fd fd;
  Mapping mapping;
};

struct Table {
  ProcessMutex mutex;
  std::map<uintptr_t, Allocation> byAddress;    // under mutex
  std::map<AllocationId, uintptr_t> addressOf;  // under mutex
  std::atomic<uint64_t> frees{0};
};

// Never destroyed: a program may free memory from its own exit handlers.
Table& table() {
  static Table& t = *new Table;
  return t;
}

Result<AllocationId> newId() {
  AllocationId id;
  if (getrandom(&id, sizeof id, 0) != sizeof id) return errnoError(errno, "getrandom");
  return id;
}

// What the system can still give, or nothing where it does not say.  Populating more than that would not fail: it would
// call the kernel's out-of-memory killer.
std::optional<size_t> availableBytes() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return std::nullopt;
  char line[128];
  std::optional<size_t> found;
  while (!found && std::fgets(line, sizeof line, file) != nullptr) {
    size_t kib = 0;
    if (std::sscanf(line, "MemAvailable: %zu kB", &kib) == 1) found = kib * 1024;
  }
  std::fclose(file);
  return found;
}

}  // namespace

Result<void*> hostAlloc(size_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  const std::optional<size_t> available = availableBytes();
  if (bytes > PTRDIFF_MAX / 2 || (available && bytes > *available)) {
    return systemError(ErrorCode::NoMemory, "no memory for ", bytes, " bytes: ", available.value_or(0),
                       " bytes are available");
  }
  Allocation a;
  a.bytes = bytes;
  TUTTI_ASSIGN(a.id, newId());
  const bool huge = bytes >= kHugePageBytes;
  const size_t mapped = roundToPages(bytes);
  TUTTI_ASSIGN(a.fd, createSharedMemory(mapped));
  TUTTI_ASSIGN(a.mapping, Mapping::of(a.fd.get(), mapped, huge ? kHugePageBytes : 1));
  // Only an advice: most kernels are set to ignore it for shared memory (shmem_enabled).
  if (huge) madvise(a.mapping.data(), mapped, MADV_HUGEPAGE);
  if (!populate(a.mapping.data(), mapped)) return errnoError(errno, cat("populating ", bytes, " bytes"));
  void* ptr = a.mapping.data();

  Table& t = table();
  const std::lock_guard lock(t.mutex);
  t.addressOf.emplace(a.id, reinterpret_cast<uintptr_t>(ptr));
  t.byAddress.emplace(reinterpret_cast<uintptr_t>(ptr), std::move(a));
  return ptr;
}

Status hostFree(void* ptr) {
  if (ptr == nullptr) return {};
  Allocation gone;  // unmapped after the lock is given up
  {
    Table& t = table();
    const std::lock_guard lock(t.mutex);
    const auto at = t.byAddress.find(reinterpret_cast<uintptr_t>(ptr));
    if (at == t.byAddress.end()) {
      return invalidArgument(ErrorCode::NotOurMemory, "ptr ", ptr,
                             " was not returned by tuttiMemAlloc, or is already free");
    }
    gone = std::move(at->second);
    t.frees.fetch_add(1, std::memory_order_release);
    t.addressOf.erase(gone.id);
    t.byAddress.erase(at);
  }
  // Peers may keep their mapping until their communicator ends; that must not keep the pages.
  fallocate(gone.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(gone.mapping.bytes()));
  return {};
}

std::optional<HostSpan> hostLookup(const void* ptr, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  auto at = t.byAddress.upper_bound(address);
  if (at == t.byAddress.begin()) return std::nullopt;
  --at;
  const size_t offset = address - at->first;
  if (offset > at->second.bytes || bytes > at->second.bytes - offset) return std::nullopt;
  return HostSpan{at->second.id, offset, at->second.bytes};
}

Result<Fd> hostShare(const AllocationId& id) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto at = t.addressOf.find(id);
  if (at == t.addressOf.end())
    return invalidUsage(ErrorCode::StillInUse, "memory was freed while an operation used it");
  Fd copy(fcntl(t.byAddress.at(at->second).fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return errnoError(errno, "duplicating a memfd");
  return copy;
}

uint64_t hostFrees() { return table().frees.load(std::memory_order_acquire); }

bool hostAlive(const AllocationId& id) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  return t.addressOf.contains(id);
}

}  // namespace tutti
