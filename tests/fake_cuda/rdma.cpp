// Memory of devices as network adapters have it: exported by DMA-BUF, written by adapters, flushed.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "tests/fake_cuda/memory.hpp"

namespace tutti::fake {
namespace {

constexpr Address kHostPage = 4096;

/// A write of an adapter that nobody has flushed yet.
struct Write {
  Address to;
  int device;
  std::vector<char> bytes;
};
struct Writes {
  std::mutex mutex;
  std::vector<Write> waiting;  // guarded by mutex
};
Writes& writes() {
  static Writes& all = *new Writes;
  return all;
}

/// The device whose memory this is; -1: none's.
int deviceAt(Address address) {
  const std::lock_guard lock(memory().mutex);
  const auto at = findAllocation(address);
  if (at == memory().byAddress.end() || at->second.freed) return -1;
  return at->second.kind == Kind::Device || at->second.kind == Kind::Mapping ? at->second.device : -1;
}

bool waits() {
  const std::lock_guard lock(machine().mutex);
  return machine().settings.flush;
}

/// Not memcpy(): the thread sanitizer must not see what adapters do.
__attribute__((no_sanitize("thread"))) void deliver(const Write& write) {
  auto* const to = reinterpret_cast<volatile char*>(write.to);
  for (size_t i = 0; i < write.bytes.size(); ++i) to[i] = write.bytes[i];
}

/// Those for which `which` says so.
template <class Which>
void deliverIf(Which which) {
  const std::lock_guard lock(writes().mutex);
  std::erase_if(writes().waiting, [&](const Write& write) {
    if (!which(write)) return false;
    if (deviceAt(write.to) >= 0) deliver(write);
    return true;
  });
}

}  // namespace

// Of whole pages in one allocation; memory of pools is not for adapters.
Error cuMemGetHandleForAddressRange(void* handle, Address address, size_t bytes, int type, unsigned long long flags) {
  TUTTI_FAKE_ENTER(cuMemGetHandleForAddressRange);
  {
    const std::lock_guard lock(machine().mutex);
    if (!machine().settings.dmabuf) return kErrorNotSupported;
  }
  const bool whole = address % kHostPage == 0 && bytes % kHostPage == 0 && bytes > 0;
  if (!whole || type != kRangeDmaBuf || flags != 0) return kErrorInvalidValue;
  const std::lock_guard lock(memory().mutex);
  const auto at = findAllocation(address);
  if (at == memory().byAddress.end() || at->second.freed || at->second.pooled) return kErrorInvalidValue;
  const Allocation& a = at->second;
  if (address - at->first + bytes > a.mapped || (a.kind != Kind::Device && a.kind != Kind::Mapping))
    return kErrorInvalidValue;
  const int fd = a.kind == Kind::Mapping ? openPages(a) : a.fd < 0 ? -1 : fcntl(a.fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return kErrorNotSupported;
  std::memcpy(handle, &fd, sizeof fd);
  return kSuccess;
}

Error cuFlushGPUDirectRDMAWrites(int target, int scope) {
  TUTTI_FAKE_ENTER(cuFlushGPUDirectRDMAWrites);
  if (target != kFlushThisContext || scope != kFlushForOwner) return kErrorInvalidValue;
  const int device = deviceOf(currentContext());
  deliverIf([device](const Write& write) { return write.device == device; });
  return kSuccess;
}

}  // namespace tutti::fake

// ---- For adapters of tests (tests/support/fake_verbs), which find these by dlsym.

#define TUTTI_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

/// Whether this is memory of a device.
TUTTI_FAKE_EXPORT int fakeCudaIsDeviceMemory(uint64_t address) { return tutti::fake::deviceAt(address) >= 0 ? 1 : 0; }

/// An adapter writes.  0: the caller has to do it itself, as nothing is flushed.
TUTTI_FAKE_EXPORT int fakeCudaAdapterWrites(uint64_t to, uint64_t from, size_t bytes) {
  using namespace tutti::fake;
  const int device = deviceAt(to);
  if (device < 0 || !waits()) return 0;
  const auto* const data = reinterpret_cast<const char*>(from);
  const std::lock_guard lock(writes().mutex);
  writes().waiting.push_back({to, device, {data, data + bytes}});
  return 1;
}

/// An adapter reads: what adapters have written there before is there first, as on PCI.
TUTTI_FAKE_EXPORT void fakeCudaAdapterReads(uint64_t from, size_t bytes) {
  tutti::fake::deliverIf(
      [&](const auto& write) { return write.to < from + bytes && from < write.to + write.bytes.size(); });
}
