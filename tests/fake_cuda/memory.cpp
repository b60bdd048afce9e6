// Memory: every allocation is a memfd of its own, so that other processes can map it.  virtual.cpp has the rest.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <tuple>

#include "tests/fake_cuda/memory.hpp"
#include "tests/fake_cuda/streams.hpp"

namespace tutti::fake {

Memory& memory() {
  static Memory& m = *new Memory;
  return m;
}

std::map<Address, Allocation>::iterator findAllocation(Address address) {
  auto at = memory().byAddress.upper_bound(address);
  if (at == memory().byAddress.begin()) return memory().byAddress.end();
  --at;
  return address < at->first + at->second.mapped ? at : memory().byAddress.end();
}

void closeRange(Address address, size_t bytes) {
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
       0);
}

namespace {

constexpr size_t kMostPoison = size_t{2} << 20;
/// How far from the host's address a device has write-combined memory; nothing is there.
constexpr Address kCombinedOffset = Address{1} << 56;

std::string text(const char* what, Address address, size_t bytes, const char* why) {
  char line[200];
  std::snprintf(line, sizeof line, "%s: [0x%lx, +%zu) %s", what, address, bytes, why);
  return line;
}

/// Names of allocations, by which handles of freed memory are told from those of what came after it.
std::string nameOf(uint64_t serial) { return "fake cuda " + std::to_string(serial); }
uint64_t nextSerial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;
}

Error keep(int fd, size_t bytes, Kind kind, uint64_t serial, Address* address) {
  const size_t mapped = (bytes + 4095) / 4096 * 4096;
  void* at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return kErrorOutOfMemory;
  *address = reinterpret_cast<Address>(at);
  const std::lock_guard lock(memory().mutex);
  const bool own = serial != 0;
  memory().byAddress[*address] = {bytes, mapped, kind, deviceOf(currentContext()), own ? fd : -1, false, 0, {}, serial};
  return kSuccess;
}

Error allocate(size_t bytes, Kind kind, Address* address) {
  if (bytes == 0) return kErrorInvalidValue;
  const uint64_t serial = nextSerial();
  const int fd = memfd_create(nameOf(serial).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>((bytes + 4095) / 4096 * 4096)) != 0) return kErrorOutOfMemory;
  const Error error = keep(fd, bytes, kind, serial, address);
  // Poison, but not so much that a large allocation takes memory before anybody uses it.
  const size_t poisoned = std::min(bytes, kMostPoison);
  if (error == kSuccess && kind == Kind::Device) std::memset(reinterpret_cast<void*>(*address), 0xcb, poisoned);
  return error;
}

/// Processes that have opened an allocation hold a lock on it.  One that ends lets go of its locks one after the other,
/// and so perhaps of this one when it has let go of what its end is known by.
bool openElsewhere(int fd) {
  constexpr int kLooks = 100;
  for (int looks = 0; looks < kLooks; ++looks) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return false;
    usleep(1000);
  }
  return true;
}

Error release(Address address, Kind kind) {
  if (address == 0) return kSuccess;
  const std::lock_guard lock(memory().mutex);
  const auto at = memory().byAddress.find(address);
  if (at == memory().byAddress.end() || at->second.freed) return kErrorInvalidValue;
  if ((at->second.kind == Kind::Pinned) != (kind == Kind::Pinned)) return kErrorInvalidValue;
  if (at->second.kind == Kind::Mapping) return kErrorInvalidValue;
  if (at->second.fd >= 0 && openElsewhere(at->second.fd)) {
    complain(text("free", address, at->second.bytes, "is memory that another process has open"));
  }
  at->second.freed = true;
  if (at->second.fd >= 0) close(at->second.fd);
  closeRange(address, at->second.mapped);
  return kSuccess;
}

bool hasPools() {
  const std::lock_guard lock(machine().mutex);
  return machine().settings.pools;
}

bool isPooled(Address address) {
  const std::lock_guard lock(memory().mutex);
  const auto at = memory().byAddress.find(address);
  return at != memory().byAddress.end() && at->second.pooled;
}

bool isCaptured(Stream handle) {
  CUstream_st* stream = streamOf(handle);
  return stream != nullptr && isCapturing(stream);
}

/// What is wrong with a range, or null; with the lock.
const char* wrongWith(const Allocation& a, Address start, Address address, size_t bytes) {
  if (a.freed) return a.kind == Kind::Mapping ? "is unmapped memory" : "is freed memory";
  if (a.combined) return "is write-combined memory by the host's address";
  if (a.kind == Kind::Mapping && a.open.empty()) return "is mapped, but open to no device";
  return address - start + bytes > a.bytes ? "leaves its allocation" : nullptr;
}

/// With the lock.  What was opened by a handle came with peer access.
bool isOpenTo(const Allocation& a, int device) {
  if (a.kind == Kind::Mapping) return a.open.count(device) != 0;
  if (a.pooled) return a.device == device;
  if (a.kind != Kind::Device || a.device == device || a.fd < 0) return true;
  const std::lock_guard lock(machine().mutex);
  return machine().peerAccess.count({device, a.device}) != 0;
}

struct IpcContent {
  uint64_t magic;
  int pid;
  int fd;
  size_t bytes;
  uint64_t serial;
  int device;  // by its number among all that processes see
};
constexpr uint64_t kIpcMagic = 0x1bc0de1bc0de;

/// What this process has opened, with the descriptors that say so to the owners; guarded by the mutex of memory().
struct Opened {
  std::map<std::tuple<int, uint64_t, int>, Address> byHandle;  // of pid, serial and device
  std::map<Address, int> descriptors;
};
Opened& opened() {
  static Opened& o = *new Opened;
  return o;
}

/// A descriptor of its own for the memory of a handle, locked; -1: that memory is gone.
int openForeign(const IpcContent& content) {
  char path[64], link[64] = "";
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", content.pid, content.fd);
  if (readlink(path, link, sizeof link - 1) < 0) return -1;
  if (std::string(link).rfind("/memfd:" + nameOf(content.serial) + " ", 0) != 0) return -1;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  struct flock lock {};
  lock.l_type = F_RDLCK;
  if (fd >= 0) fcntl(fd, F_OFD_SETLK, &lock);
  return fd;
}

}  // namespace

void checkRange(Address address, size_t bytes, int device, const char* what) {
  if (bytes == 0) return;
  std::unique_lock lock(memory().mutex);
  const auto at = findAllocation(address);
  const char* why =
      at == memory().byAddress.end() ? "is no memory of the driver" : wrongWith(at->second, at->first, address, bytes);
  if (why == nullptr && !isOpenTo(at->second, device)) why = "is not open to the device";
  lock.unlock();
  if (why != nullptr) complain(text(what, address, bytes, why));
}

bool isManaged(Address address) {
  const std::lock_guard lock(memory().mutex);
  const auto at = findAllocation(address);
  return at != memory().byAddress.end() && at->second.kind == Kind::Managed;
}

void checkOwnWord(Address address, int device) {
  checkRange(address, sizeof(uint32_t), device, "wait for a value");
  std::unique_lock lock(memory().mutex);
  const auto at = findAllocation(address);
  const bool own = at == memory().byAddress.end() || at->second.kind == Kind::Pinned ||
                   (at->second.fd >= 0 && at->second.device == device);
  lock.unlock();
  if (!own) complain(text("wait for a value", address, sizeof(uint32_t), "is memory of another device or process"));
}

void checkCopyRange(Address address, size_t bytes, const char* what) {
  std::unique_lock lock(memory().mutex);
  const auto at = findAllocation(address);
  const char* why = at == memory().byAddress.end() ? nullptr : wrongWith(at->second, at->first, address, bytes);
  lock.unlock();
  if (why != nullptr) complain(text(what, address, bytes, why));
}

std::string memoryLeaks() {
  const std::lock_guard lock(memory().mutex);
  std::string leaks;
  for (const auto& [address, a] : memory().byAddress) {
    if (!a.freed) leaks += text("leak", address, a.bytes, "was never freed") + "\n";
  }
  leaks += virtualLeaks();
  return leaks;
}

void loseMemoryOf(int device) {
  size_t lost = 0;
  {
    const std::lock_guard lock(memory().mutex);
    for (auto& [address, a] : memory().byAddress) {
      if (a.freed || a.kind == Kind::Mapping || a.device != device) continue;
      a.freed = true;
      if (a.fd >= 0) close(a.fd);
      closeRange(address, a.mapped);
      ++lost;
    }
  }
  if (lost > 0) complain("a context goes that still has " + std::to_string(lost) + " allocations");
}

Error cuMemAlloc(Address* address, size_t bytes) {
  TUTTI_FAKE_ENTER(cuMemAlloc);
  return allocate(bytes, Kind::Device, address);
}
Error cuMemAllocAsync(Address* address, size_t bytes, Stream stream) {
  TUTTI_FAKE_ENTER(cuMemAllocAsync);
  if (!hasPools()) return kErrorNotSupported;
  if (isCaptured(stream)) complain("memory is allocated on a stream that is captured: it would be the graph's");
  if (deviceOfStream(stream) != deviceOf(currentContext())) return kErrorInvalidContext;
  const Error error = allocate(bytes, Kind::Device, address);
  if (error != kSuccess) return error;
  const std::lock_guard lock(memory().mutex);
  memory().byAddress[*address].pooled = true;
  return kSuccess;
}
Error cuMemAllocManaged(Address* address, size_t bytes, unsigned flags) {
  TUTTI_FAKE_ENTER(cuMemAllocManaged);
  if (flags != kManagedGlobal) return kErrorInvalidValue;
  return allocate(bytes, Kind::Managed, address);
}
// Of memory of a pool the caller vouches that nothing uses it any more.
Error cuMemFree(Address address) {
  TUTTI_FAKE_ENTER(cuMemFree);
  if (!isPooled(address)) mayWaitForDevice("cuMemFree");
  return release(address, Kind::Device);
}
Error cuMemFreeAsync(Address address, Stream stream) {
  TUTTI_FAKE_ENTER(cuMemFreeAsync);
  if (!isPooled(address)) return kErrorInvalidValue;
  if (isCaptured(stream)) complain("memory is freed on a stream that is captured: a graph would free it");
  return enqueue(stream, [=] {
    if (release(address, Kind::Device) != kSuccess) complain("memory of a pool is freed that has been freed");
  });
}
Error cuMemHostAlloc(void** result, size_t bytes, unsigned flags) {
  TUTTI_FAKE_ENTER(cuMemHostAlloc);
  if ((flags & ~(kHostAllocPortable | kHostAllocWriteCombined)) != 0) return kErrorInvalidValue;
  const Error error = allocate(bytes, Kind::Pinned, reinterpret_cast<Address*>(result));
  if (error != kSuccess) return error;
  const std::lock_guard lock(memory().mutex);
  memory().byAddress[reinterpret_cast<Address>(*result)].combined = (flags & kHostAllocWriteCombined) != 0;
  return kSuccess;
}
Error cuMemFreeHost(void* pinned) {
  TUTTI_FAKE_ENTER(cuMemFreeHost);
  return release(reinterpret_cast<Address>(pinned), Kind::Pinned);
}

/// a: null for memory that the driver does not know.
static void writeAttribute(int attribute, void* value, Address address, const Allocation* a) {
  if (attribute == kPointerDevicePointer) {
    const Address asDeviceHasIt = a == nullptr ? 0 : a->combined ? address + kCombinedOffset : address;
    std::memcpy(value, &asDeviceHasIt, sizeof asDeviceHasIt);
    return;
  }
  int number = attribute == kPointerDeviceOrdinal ? -2 : 0;
  if (a != nullptr) {
    if (attribute == kPointerDeviceOrdinal) number = a->device;
    if (attribute == kPointerMemoryType) number = a->kind == Kind::Pinned ? kMemoryTypeHost : kMemoryTypeDevice;
    if (attribute == kPointerIsManaged) number = a->kind == Kind::Managed;
  }
  const size_t bytes = attribute == kPointerIsManaged ? sizeof(bool) : sizeof number;
  std::memcpy(value, &number, bytes);
}

Error cuPointerGetAttributes(unsigned count, int* attributes, void** data, Address address) {
  TUTTI_FAKE_ENTER(cuPointerGetAttributes);
  const std::lock_guard lock(memory().mutex);
  const auto at = findAllocation(address);
  const bool known = at != memory().byAddress.end() && !at->second.freed;
  for (unsigned i = 0; i < count; ++i) {
    writeAttribute(attributes[i], data[i], address, known ? &at->second : nullptr);
  }
  return kSuccess;
}

Error cuMemGetAddressRange(Address* base, size_t* bytes, Address address) {
  TUTTI_FAKE_ENTER(cuMemGetAddressRange);
  const std::lock_guard lock(memory().mutex);
  const auto at = findAllocation(address);
  if (at == memory().byAddress.end() || at->second.freed) return kErrorInvalidValue;
  *base = at->first;
  *bytes = at->second.bytes;
  return kSuccess;
}

Error cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  TUTTI_FAKE_ENTER(cuIpcGetMemHandle);
  {
    const std::lock_guard lock(machine().mutex);
    if (!machine().settings.ipc) return kErrorNotSupported;
  }
  const std::lock_guard lock(memory().mutex);
  const auto at = findAllocation(address);
  if (at == memory().byAddress.end() || at->second.freed || at->second.fd < 0) return kErrorInvalidValue;
  if (at->second.kind != Kind::Device || at->first != address || at->second.pooled) return kErrorInvalidValue;
  const IpcContent content{kIpcMagic,        getpid(),          at->second.fd,
                           at->second.bytes, at->second.serial, firstDevice() + at->second.device};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &content, sizeof content);
  return kSuccess;
}

// As a real driver, it does not open memory in the process that it is from.  As an old one, it opens no memory twice;
// newer ones count.
Error cuIpcOpenMemHandle(Address* address, IpcHandle handle, unsigned flags) {
  TUTTI_FAKE_ENTER(cuIpcOpenMemHandle);
  if (flags != kIpcLazyPeerAccess) return kErrorInvalidValue;
  IpcContent content;
  std::memcpy(&content, &handle, sizeof content);
  if (content.magic != kIpcMagic) return kErrorInvalidValue;
  if (content.pid == getpid()) return kErrorInvalidContext;
  const int home = content.device - firstDevice();
  if (!isDevice(home)) return kErrorInvalidDevice;
  if (!reaches(deviceOf(currentContext()), home)) return kErrorPeerAccessUnsupported;
  const std::tuple key(content.pid, content.serial, deviceOf(currentContext()));
  {
    const std::lock_guard lock(memory().mutex);
    if (opened().byHandle.count(key) != 0) return kErrorAlreadyMapped;
  }
  const int fd = openForeign(content);
  if (fd < 0) return kErrorInvalidValue;
  const Error error = keep(fd, content.bytes, Kind::Device, 0, address);
  if (error != kSuccess) {
    close(fd);
    return error;
  }
  const std::lock_guard lock(memory().mutex);
  opened().byHandle[key] = *address;
  opened().descriptors[*address] = fd;
  return kSuccess;
}
Error cuIpcCloseMemHandle(Address address) {
  TUTTI_FAKE_ENTER(cuIpcCloseMemHandle);
  {
    const std::lock_guard lock(memory().mutex);
    if (opened().descriptors.count(address) == 0) return kErrorInvalidValue;
  }
  const Error error = release(address, Kind::Device);
  const std::lock_guard lock(memory().mutex);
  close(opened().descriptors[address]);
  opened().descriptors.erase(address);
  std::erase_if(opened().byHandle, [&](const auto& entry) { return entry.second == address; });
  return error;
}

}  // namespace tutti::fake
