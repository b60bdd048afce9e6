#include "transport/cuda/ipc_memory.hpp"

#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace tutti::cuda {
namespace {

/// Memory that its owner has no use for any more, but that others had open.  Never destroyed.
struct Waiting {
  std::mutex mutex;
  std::list<std::pair<DeviceMemory, std::shared_ptr<const Readers>>> memory;  // under mutex
};
Waiting& waiting() {
  static Waiting& w = *new Waiting;
  return w;
}

}  // namespace

IpcOffer offerByIpc(const CudaDevice& device, Address address) {
  IpcOffer offer;
  const CudaScope scope(device);
  offer.given = device.driver().cuIpcGetMemHandle(&offer.handle, address) == kSuccess ? 1 : 0;
  return offer;
}

OfferedMemory& OfferedMemory::operator=(OfferedMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(readers_, other.readers_);
  return *this;
}

OfferedMemory::~OfferedMemory() {
  if (memory_.address() == 0 || readers_ == nullptr) return;
  if (readers_->reader()) {
    const std::lock_guard lock(waiting().mutex);
    waiting().memory.emplace_back(std::move(memory_), std::move(readers_));
  }
}

Result<OfferedMemory> OfferedMemory::allocate(std::shared_ptr<const CudaDevice> device, size_t bytes,
                                              std::shared_ptr<const Readers> readers) {
  OfferedMemory offered;
  TUTTI_ASSIGN(offered.memory_, DeviceMemory::allocate(std::move(device), bytes));
  offered.readers_ = std::move(readers);
  return offered;
}

Result<OfferedMemory> OfferedMemory::allocateOn(Stream stream, std::shared_ptr<const CudaDevice> device, size_t bytes) {
  OfferedMemory own;
  TUTTI_ASSIGN(own.memory_, DeviceMemory::allocateOn(stream, std::move(device), bytes));
  return own;
}

void OfferedMemory::sweep() {
  std::list<std::pair<DeviceMemory, std::shared_ptr<const Readers>>> closed;  // freed without the lock
  const std::lock_guard lock(waiting().mutex);
  for (auto at = waiting().memory.begin(); at != waiting().memory.end();) {
    const auto next = std::next(at);
    if (!at->second->reader()) closed.splice(closed.end(), waiting().memory, at);
    at = next;
  }
}

/// An allocation of another process's as this one has it open on a device.
struct IpcMemory::Opening {
  std::mutex mutex;  // guards what follows, and the driver's calls: nobody opens what is just being closed
  Address address = 0;
  int times = 0;
};

std::shared_ptr<IpcMemory::Opening> IpcMemory::openingOf(const CudaDevice& device, const IpcHandle& handle) {
  using Key = std::pair<Device, std::string>;
  static std::mutex& mutex = *new std::mutex;  // never destroyed
  static auto& openings = *new std::map<Key, std::weak_ptr<Opening>>;
  const std::lock_guard lock(mutex);
  std::erase_if(openings, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Opening>& known = openings[{device.ordinal(), std::string(handle.reserved, sizeof handle.reserved)}];
  std::shared_ptr<Opening> opening = known.lock();
  if (opening == nullptr) known = opening = std::make_shared<Opening>();
  return opening;
}

IpcMemory::IpcMemory(IpcMemory&& other) noexcept { *this = std::move(other); }

IpcMemory& IpcMemory::operator=(IpcMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(opening_, other.opening_);
  std::swap(address_, other.address_);
  return *this;
}

IpcMemory::~IpcMemory() {
  if (address_ == 0) return;
  const std::lock_guard lock(opening_->mutex);
  if (--opening_->times > 0) return;
  const CudaScope scope(*device_);
  device_->driver().cuIpcCloseMemHandle(address_);
}

Result<IpcMemory> IpcMemory::open(std::shared_ptr<const CudaDevice> device, const IpcOffer& offer) {
  if (offer.given == 0)
    return remoteError(ErrorCode::PeerMemoryGone, "a peer's device memory cannot be opened by other processes");
  IpcMemory memory;
  memory.opening_ = openingOf(*device, offer.handle);
  Opening& opening = *memory.opening_;
  const std::lock_guard lock(opening.mutex);
  if (opening.times == 0) {
    const CudaScope scope(*device);
    const Driver& driver = device->driver();
    const Status opened = check(driver, driver.cuIpcOpenMemHandle(&opening.address, offer.handle, kIpcLazyPeerAccess),
                                "cuIpcOpenMemHandle");
    if (!opened.ok())
      return remoteError(ErrorCode::PeerMemoryGone, "a peer's device memory cannot be opened: ", opened.text());
  }
  ++opening.times;
  memory.address_ = opening.address;
  memory.device_ = std::move(device);
  return memory;
}

}  // namespace tutti::cuda
