// Device memory of another process on this host, opened by its IPC handle.
#pragma once

#include <memory>

#include "src/device/cuda_device.hpp"

namespace tutti::cuda {

/// A handle by which other processes can open an allocation of cuMemAlloc, and whether the driver gives one.
struct IpcOffer {
  uint64_t given = 0;
  IpcHandle handle{};
};
/// address: the start of the allocation.  device: whose memory it is.
IpcOffer offerByIpc(const CudaDevice& device, Address address);

/// What another process has offered; open while this lives.  Empty: a null address.
class IpcMemory {
 public:
  IpcMemory() = default;
  IpcMemory(IpcMemory&& other) noexcept;
  IpcMemory& operator=(IpcMemory&& other) noexcept;
  ~IpcMemory();
  /// device: the one that will use it.  Errors: RemoteError: there is no handle, or the driver does not take it.
  static Result<IpcMemory> open(std::shared_ptr<const CudaDevice> device, const IpcOffer& offer);
  Address address() const { return address_; }

 private:
  std::shared_ptr<const CudaDevice> device_;
  Address address_ = 0;
};

}  // namespace tutti::cuda
