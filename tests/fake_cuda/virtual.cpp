// Virtual memory management: pages are memfds, addresses are reserved without access, mappings join the two.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>

#include "tests/fake_cuda/memory.hpp"

namespace tutti::fake {
namespace {

constexpr size_t kGranule = size_t{64} << 10;  // smaller than a real one's, so that tests need little memory
constexpr size_t kHostPage = 4096;

/// There while a handle or a mapping is.
struct Pages {
  int fd = -1;
  size_t bytes = 0;
  int device = 0;
  bool exported = false;  // whether they may be
  bool rdma = false;      // whether network adapters may have them
  AllocationHandle handle = 0;
  ~Pages() { close(fd); }
};

/// A handle, as often as it has been given and not released.
struct Handle {
  std::shared_ptr<Pages> pages;
  int times = 1;
};

/// A range of addresses, in what was mapped for it.
struct Reservation {
  size_t bytes = 0;
  void* raw = nullptr;
  size_t rawBytes = 0;
};
/// Of those that have been freed: a kernel has 65,530 mappings for a process.
constexpr size_t kMostClosed = 1024;

/// Guarded by the mutex of memory().
struct Virtual {
  AllocationHandle next = 1;
  std::map<AllocationHandle, Handle> handles;
  uint64_t nextMapping = 1;
  std::map<uint64_t, std::shared_ptr<Pages>> mappings;  // by Allocation::pages
  std::map<Address, Reservation> reserved;
  std::deque<Reservation> closed;  // the oldest first
};
Virtual& virtualMemory() {
  static Virtual& v = *new Virtual;
  return v;
}

AllocationHandle newHandle(std::shared_ptr<Pages> pages) {
  Virtual& v = virtualMemory();
  pages->handle = v.next;
  v.handles[v.next] = {std::move(pages)};
  return v.next++;
}

/// Memory of a device that there is, which others may have by descriptors.
bool canBeMade(const AllocationProperties& p) {
  return p.type == kAllocationPinned && p.location.type == kLocationDevice && (p.handleTypes & ~kHandleDescriptor) == 0;
}

bool wholeGranules(Address address, size_t bytes) {
  return bytes > 0 && address % kGranule == 0 && bytes % kGranule == 0;
}

/// Where the range is all inside of one reservation.
bool isReserved(Address address, size_t bytes) {
  const auto& reserved = virtualMemory().reserved;
  auto at = reserved.upper_bound(address);
  if (at == reserved.begin()) return false;
  --at;
  return address + bytes <= at->first + at->second.bytes;
}

/// The last of those that begin before `end`, which tells all where no two overlap; end() of the map: there is none.
std::map<Address, Allocation>::iterator lastBefore(Address end) {
  const auto after = memory().byAddress.lower_bound(end);
  return after == memory().byAddress.begin() ? memory().byAddress.end() : std::prev(after);
}

/// Looks at neighbours alone: a process may have mapped and unmapped any number of ranges.
bool isMapped(Address address, size_t bytes) {
  const auto& all = memory().byAddress;
  for (auto at = lastBefore(address + bytes); at != all.end() && address < at->first + at->second.mapped;
       at = lastBefore(at->first)) {
    if (!at->second.freed) return true;
  }
  return false;
}

/// What was unmapped there before.
void forgetFreed(Address address, size_t bytes) {
  auto& all = memory().byAddress;
  for (auto at = lastBefore(address + bytes); at != all.end() && address < at->first + at->second.mapped;
       at = lastBefore(address + bytes))
    all.erase(at);
}

/// Which device the pages of a descriptor are on: their name says so, as it is all that travels.
int deviceOfDescriptor(int fd) {
  char link[64], name[64] = "";
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, name, sizeof name - 1) < 0) return -1;
  int device = -1;
  return std::sscanf(name, "/memfd:fake cuda pages %d", &device) == 1 ? device - firstDevice() : -1;
}

bool virtualAllowed() {
  const std::lock_guard lock(machine().mutex);
  return machine().settings.vmm;
}

bool rdmaAllowed() {
  const std::lock_guard lock(machine().mutex);
  return machine().settings.rdma;
}

}  // namespace

int openPages(const Allocation& mapping) {
  const std::shared_ptr<Pages>& pages = virtualMemory().mappings.at(mapping.pages);
  return pages->rdma ? fcntl(pages->fd, F_DUPFD_CLOEXEC, 0) : -1;
}

std::string virtualLeaks() {
  std::string leaks;
  char line[120];
  for (const auto& [handle, held] : virtualMemory().handles) {
    std::snprintf(line, sizeof line, "leak: handle %llu of %zu bytes was never released\n", handle, held.pages->bytes);
    leaks += line;
  }
  for (const auto& [address, range] : virtualMemory().reserved) {
    std::snprintf(line, sizeof line, "leak: [0x%lx, +%zu) is still reserved\n", address, range.bytes);
    leaks += line;
  }
  return leaks;
}

Error cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties* properties, int option) {
  TUTTI_FAKE_ENTER(cuMemGetAllocationGranularity);
  if (!canBeMade(*properties) || option != kGranularityMinimum) return kErrorInvalidValue;
  if (!isDevice(properties->location.id)) return kErrorInvalidDevice;
  *bytes = kGranule;
  return kSuccess;
}

Error cuMemCreate(AllocationHandle* handle, size_t bytes, const AllocationProperties* properties,
                  unsigned long long flags) {
  TUTTI_FAKE_ENTER(cuMemCreate);
  if (!virtualAllowed()) return kErrorNotSupported;
  if (!wholeGranules(0, bytes) || !canBeMade(*properties) || flags != 0) return kErrorInvalidValue;
  if (!isDevice(properties->location.id)) return kErrorInvalidDevice;
  if (properties->flags.rdmaCapable != 0) {
    if (!rdmaAllowed()) return kErrorNotSupported;
    note("pages that network adapters can reach");
  }
  auto pages = std::make_shared<Pages>();
  pages->bytes = bytes;
  pages->device = properties->location.id;
  pages->exported = properties->handleTypes == kHandleDescriptor;
  pages->rdma = properties->flags.rdmaCapable != 0;
  const std::string name = "fake cuda pages " + std::to_string(firstDevice() + pages->device);
  pages->fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (pages->fd < 0 || ftruncate(pages->fd, static_cast<off_t>(bytes)) != 0) return kErrorOutOfMemory;
  const std::lock_guard lock(memory().mutex);
  *handle = newHandle(std::move(pages));
  return kSuccess;
}
Error cuMemRelease(AllocationHandle handle) {
  TUTTI_FAKE_ENTER(cuMemRelease);
  std::unique_lock lock(memory().mutex);
  const auto found = virtualMemory().handles.find(handle);
  if (found == virtualMemory().handles.end()) {
    lock.unlock();
    complain("a handle is released that is none, which has no defined result");
    return kErrorInvalidValue;
  }
  if (--found->second.times == 0) virtualMemory().handles.erase(found);
  return kSuccess;
}
Error cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  TUTTI_FAKE_ENTER(cuMemRetainAllocationHandle);
  const std::lock_guard lock(memory().mutex);
  const auto at = findAllocation(reinterpret_cast<Address>(address));
  if (at == memory().byAddress.end() || at->second.freed || at->second.kind != Kind::Mapping) return kErrorInvalidValue;
  const std::shared_ptr<Pages>& pages = virtualMemory().mappings.at(at->second.pages);
  *handle = pages->handle;  // the one that it was mapped by
  const auto [held, added] = virtualMemory().handles.try_emplace(*handle, Handle{pages});
  if (!added) ++held->second.times;
  return kSuccess;
}
Error cuMemGetAllocationPropertiesFromHandle(AllocationProperties* of, AllocationHandle handle) {
  TUTTI_FAKE_ENTER(cuMemGetAllocationPropertiesFromHandle);
  const std::lock_guard lock(memory().mutex);
  const auto found = virtualMemory().handles.find(handle);
  if (found == virtualMemory().handles.end()) return kErrorInvalidValue;
  *of = {};
  of->type = kAllocationPinned;
  of->handleTypes = found->second.pages->exported ? kHandleDescriptor : 0;
  of->location = {kLocationDevice, found->second.pages->device};
  return kSuccess;
}

// Aligned as asked for and no better, so that who maps granules there has to ask.
Error cuMemAddressReserve(Address* address, size_t bytes, size_t alignment, Address, unsigned long long flags) {
  TUTTI_FAKE_ENTER(cuMemAddressReserve);
  if (bytes == 0 || bytes % kHostPage != 0 || flags != 0) return kErrorInvalidValue;
  if ((alignment & (alignment - 1)) != 0) return kErrorInvalidValue;
  const size_t step = std::max(alignment, kHostPage);
  void* raw = mmap(nullptr, bytes + 2 * step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return kErrorOutOfMemory;
  *address = (reinterpret_cast<Address>(raw) + step - 1) / step * step;
  if (*address % (2 * step) == 0) *address += step;
  const std::lock_guard lock(memory().mutex);
  virtualMemory().reserved[*address] = {bytes, raw, bytes + 2 * step};
  return kSuccess;
}
// The range stays closed for a while, so that nothing else comes there and a late access is seen.
Error cuMemAddressFree(Address address, size_t bytes) {
  TUTTI_FAKE_ENTER(cuMemAddressFree);
  const std::lock_guard lock(memory().mutex);
  const auto found = virtualMemory().reserved.find(address);
  if (found == virtualMemory().reserved.end() || found->second.bytes != bytes || isMapped(address, bytes)) {
    return kErrorInvalidValue;
  }
  std::deque<Reservation>& closed = virtualMemory().closed;
  closed.push_back(found->second);
  virtualMemory().reserved.erase(found);
  if (closed.size() > kMostClosed) {
    const Reservation& oldest = closed.front();
    forgetFreed(reinterpret_cast<Address>(oldest.raw), oldest.rawBytes);
    munmap(oldest.raw, oldest.rawBytes);
    closed.pop_front();
  }
  return kSuccess;
}

Error cuMemMap(Address address, size_t bytes, size_t offset, AllocationHandle handle, unsigned long long flags) {
  TUTTI_FAKE_ENTER(cuMemMap);
  if (flags != 0) return kErrorInvalidValue;
  const std::lock_guard lock(memory().mutex);
  Virtual& v = virtualMemory();
  const auto found = v.handles.find(handle);
  if (found == v.handles.end() || offset != 0 || !wholeGranules(address, bytes)) return kErrorInvalidValue;
  const std::shared_ptr<Pages>& pages = found->second.pages;
  if (bytes > pages->bytes || !isReserved(address, bytes) || isMapped(address, bytes)) return kErrorInvalidValue;
  forgetFreed(address, bytes);
  v.mappings[v.nextMapping] = pages;
  memory().byAddress[address] = {bytes, bytes, Kind::Mapping, pages->device, -1, false, v.nextMapping++, {}, 0};
  return kSuccess;
}
Error cuMemUnmap(Address address, size_t bytes) {
  TUTTI_FAKE_ENTER(cuMemUnmap);
  const std::lock_guard lock(memory().mutex);
  const auto at = memory().byAddress.find(address);
  if (at == memory().byAddress.end() || at->second.kind != Kind::Mapping || at->second.freed) return kErrorInvalidValue;
  if (at->second.bytes != bytes) return kErrorInvalidValue;
  at->second.freed = true;
  virtualMemory().mappings.erase(at->second.pages);
  closeRange(address, bytes);
  return kSuccess;
}
Error cuMemSetAccess(Address address, size_t bytes, const MemoryAccess* access, size_t count) {
  TUTTI_FAKE_ENTER(cuMemSetAccess);
  const std::lock_guard lock(memory().mutex);
  const auto at = memory().byAddress.find(address);
  if (at == memory().byAddress.end() || at->second.kind != Kind::Mapping || at->second.freed) return kErrorInvalidValue;
  if (at->second.bytes != bytes || access == nullptr || count == 0) return kErrorInvalidValue;
  const int fd = virtualMemory().mappings.at(at->second.pages)->fd;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED) {
    return kErrorOutOfMemory;
  }
  const int home = virtualMemory().mappings.at(at->second.pages)->device;
  for (size_t i = 0; i < count; ++i) {
    if (access[i].location.type != kLocationDevice) return kErrorInvalidValue;
    if (!isDevice(access[i].location.id) || !reaches(access[i].location.id, home)) return kErrorInvalidDevice;
    if (access[i].flags == kAccessReadWrite) at->second.open.insert(access[i].location.id);
  }
  return kSuccess;
}

Error cuMemExportToShareableHandle(void* exported, AllocationHandle handle, int type, unsigned long long flags) {
  TUTTI_FAKE_ENTER(cuMemExportToShareableHandle);
  if (flags != 0) return kErrorInvalidValue;
  const std::lock_guard lock(memory().mutex);
  const auto found = virtualMemory().handles.find(handle);
  if (found == virtualMemory().handles.end() || type != kHandleDescriptor) return kErrorInvalidValue;
  if (!found->second.pages->exported) return kErrorNotSupported;
  const int fd = dup(found->second.pages->fd);
  std::memcpy(exported, &fd, sizeof fd);
  return fd < 0 ? kErrorOutOfMemory : kSuccess;
}
Error cuMemImportFromShareableHandle(AllocationHandle* handle, void* exported, int type) {
  TUTTI_FAKE_ENTER(cuMemImportFromShareableHandle);
  const auto fd = static_cast<int>(reinterpret_cast<intptr_t>(exported));
  struct stat size {};
  const int device = deviceOfDescriptor(fd);
  if (type != kHandleDescriptor || fstat(fd, &size) != 0) return kErrorInvalidValue;
  if (!isDevice(device)) return kErrorNotSupported;
  auto pages = std::make_shared<Pages>();
  pages->fd = dup(fd);
  pages->bytes = static_cast<size_t>(size.st_size);
  pages->device = device;
  pages->exported = true;
  if (pages->fd < 0) return kErrorOutOfMemory;
  const std::lock_guard lock(memory().mutex);
  *handle = newHandle(std::move(pages));
  return kSuccess;
}

}  // namespace tutti::fake
