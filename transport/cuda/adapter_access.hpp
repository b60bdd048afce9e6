// How network adapters are given a CUDA device's memory, and what makes their writes visible there.
#pragma once

#include <memory>
#include <string>

#include "src/device/cuda/device.hpp"
#include "transport/services.hpp"

namespace tutti::cuda {

/// Whether the kernel has a module by which memory of CUDA devices is registered by its addresses: nvidia-peermem, or
/// nv_peer_mem before it.  sys: where the kernel tells of its modules.
bool hasPeerMemoryModule(const std::string& sys = "/sys");

class CudaAdapterAccess final : public AdapterAccess {
 public:
  explicit CudaAdapterAccess(std::shared_ptr<const CudaDevice> device);

  std::string busId() const override { return device_->busId(); }
  Status check(Needs needs) const override;
  bool ordersWrites() const override { return ordersWrites_; }
  bool byAddress() const override { return byAddress_; }
  Result<DmaBuf> dmaBuf(const Memory& memory) const override;

 private:
  std::shared_ptr<const CudaDevice> device_;
  bool rdma_ = false, dmaBuf_ = false, byAddress_ = false;
  bool ordersWrites_ = false, flushes_ = false;  // so that writes are visible in time
};

/// Makes what adapters have written visible to what a device does from now on, where that needs a flush.
class WriteFlush {
 public:
  explicit WriteFlush(const CudaDevice& device);
  bool isNeeded() const { return needed_; }
  /// With the device's context current.  Errors: UnhandledCudaError.
  Status operator()() const;

 private:
  const Driver& driver_;
  bool needed_ = false;
};

}  // namespace tutti::cuda
