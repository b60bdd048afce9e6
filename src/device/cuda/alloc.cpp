#include "src/device/cuda/alloc.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "src/device/cuda/virtual.hpp"

namespace tutti::cuda {
namespace {

/// One of the two has the memory.
struct Allocation {
  std::shared_ptr<const CudaDevice> device;
  size_t bytes = 0;  // as asked for
  DeviceMapping mapping;
  DeviceMemory plain;
};

struct AllocationTable {
  std::mutex mutex;
  std::map<Address, std::shared_ptr<Allocation>> byAddress;  // under mutex
};
// Never destroyed: a program may free memory from its own exit handlers.
AllocationTable& allocations() {
  static AllocationTable& t = *new AllocationTable;
  return t;
}

/// With the lock.
std::shared_ptr<Allocation> holderOf(const AllocationTable& t, Address address) {
  auto at = t.byAddress.upper_bound(address);
  if (at == t.byAddress.begin()) return nullptr;
  --at;
  return address - at->first < at->second->bytes ? at->second : nullptr;
}

}  // namespace

Result<void*> deviceAlloc(Device ordinal, size_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  auto made = std::make_shared<Allocation>();
  TUTTI_ASSIGN(made->device, CudaDevice::open(ordinal));
  made->bytes = bytes;
  Address address = 0;
  if (hasVirtualMemory(*made->device)) {
    TUTTI_ASSIGN(const DevicePages pages, DevicePages::create(made->device, bytes));
    TUTTI_ASSIGN(made->mapping, DeviceMapping::of(pages));
    address = made->mapping.address();
  } else {
    TUTTI_ASSIGN(made->plain, DeviceMemory::allocate(made->device, bytes));
    address = made->plain.address();
  }
  AllocationTable& t = allocations();
  const std::lock_guard lock(t.mutex);
  t.byAddress[address] = std::move(made);
  return reinterpret_cast<void*>(address);
}

bool isDeviceAllocation(const void* memory) {
  AllocationTable& t = allocations();
  const std::lock_guard lock(t.mutex);
  return t.byAddress.contains(addressOf(memory));
}

std::shared_ptr<const void> holdDeviceMemory(const void* memory) {
  AllocationTable& t = allocations();
  const std::lock_guard lock(t.mutex);
  return holderOf(t, addressOf(memory));
}

Status deviceFree(void* memory) {
  AllocationTable& t = allocations();
  std::shared_ptr<Allocation> gone;
  {
    const std::lock_guard lock(t.mutex);
    const auto found = t.byAddress.find(addressOf(memory));
    if (found == t.byAddress.end()) {
      return invalidArgument(ErrorCode::NotOurMemory, "ptr ", memory,
                             " was not returned by tuttiMemAlloc, or is already free; pass what it returned, once");
    }
    if (found->second.use_count() > 1) {
      return invalidUsage(ErrorCode::StillInUse, "ptr ", memory,
                          " is still registered with a communicator; deregister it first");
    }
    gone = std::move(found->second);
    t.byAddress.erase(found);
  }
  const CudaScope scope(*gone->device);
  const Driver& driver = gone->device->driver();
  // Unmapping does not wait, as cuMemFree would.  Captures cannot be asked for first: the driver tells of one only to
  // who has its stream.
  const Error waited = driver.cuCtxSynchronize();
  if (waited == kErrorCaptureUnsupported) {
    const std::lock_guard lock(t.mutex);
    t.byAddress[addressOf(memory)] = std::move(gone);
    return invalidUsage(
        ErrorCode::StillInUse,
        "memory cannot be freed while a stream of its device is being captured; the driver has invalidated that "
        "capture");
  }
  return check(driver, waited, "cuCtxSynchronize");
}

}  // namespace tutti::cuda
