#include "transport/cuda/ipc_memory.hpp"

#include <utility>

namespace tutti::cuda {

IpcOffer offerByIpc(const CudaDevice& device, Address address) {
  IpcOffer offer;
  const CudaScope scope(device);
  offer.given = device.driver().cuIpcGetMemHandle(&offer.handle, address) == kSuccess ? 1 : 0;
  return offer;
}

IpcMemory::IpcMemory(IpcMemory&& other) noexcept { *this = std::move(other); }

IpcMemory& IpcMemory::operator=(IpcMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  return *this;
}

IpcMemory::~IpcMemory() {
  if (address_ == 0) return;
  const CudaScope scope(*device_);
  device_->driver().cuIpcCloseMemHandle(address_);
}

Result<IpcMemory> IpcMemory::open(std::shared_ptr<const CudaDevice> device, const IpcOffer& offer) {
  if (offer.given == 0) return remoteError("a peer's device memory cannot be opened by other processes");
  IpcMemory memory;
  const CudaScope scope(*device);
  const Driver& driver = device->driver();
  const Status opened = check(driver, driver.cuIpcOpenMemHandle(&memory.address_, offer.handle, kIpcLazyPeerAccess),
                              "cuIpcOpenMemHandle");
  if (!opened.ok()) {
    memory.address_ = 0;
    return remoteError("a peer's device memory cannot be opened: ", opened.message());
  }
  memory.device_ = std::move(device);
  return memory;
}

}  // namespace tutti::cuda
