#include "transport/cuda/adapter_access.hpp"

#include <unistd.h>

namespace tutti::cuda {
namespace {

int attribute(const CudaDevice& device, int which) {
  int value = 0;
  return device.driver().cuDeviceGetAttribute(&value, which, device.ordinal()) == kSuccess ? value : 0;
}

bool ordersWrites(const CudaDevice& device) { return attribute(device, kAttributeRdmaOrdering) >= kOrderedForOwner; }

}  // namespace

bool hasPeerMemoryModule(const std::string& sys) {
  for (const char* file : {"/module/nvidia_peermem", "/kernel/mm/memory_peers/nv_mem/version",
                           "/kernel/mm/memory_peers/nvidia-peermem/version"}) {
    if (access((sys + file).c_str(), F_OK) == 0) return true;
  }
  return false;
}

CudaAdapterAccess::CudaAdapterAccess(std::shared_ptr<const CudaDevice> device)
    : device_(std::move(device)),
      rdma_(attribute(*device_, kAttributeRdma) != 0),
      dmaBuf_(attribute(*device_, kAttributeDmaBuf) != 0),
      byAddress_(hasPeerMemoryModule()),
      ordersWrites_(tutti::cuda::ordersWrites(*device_)),
      flushes_((attribute(*device_, kAttributeRdmaFlushes) & kFlushByHost) != 0) {}

Status CudaAdapterAccess::check(Needs needs) const {
  const auto name = [this] { return cat("CUDA device ", device_->ordinal()); };
  if (!rdma_)
    return invalidUsage(ErrorCode::GpuDirect, name(),
                        " does not let adapters read and write its memory (GPUDirect RDMA)");
  if (needs.flush && !ordersWrites_ && !flushes_)
    return invalidUsage(ErrorCode::GpuDirect, name(),
                        " has no flush of what adapters have written (cuFlushGPUDirectRDMAWrites)");
  if (!needs.registering || dmaBuf_ || byAddress_) return {};
  return invalidUsage(ErrorCode::GpuDirect, name(),
                      " has no DMA-BUF, and the kernel no module nvidia_peermem (modprobe nvidia-peermem)");
}

// Whole pages, as the driver asks for: what the device has besides in them is not told to anyone.
Result<AdapterAccess::DmaBuf> CudaAdapterAccess::dmaBuf(const Memory& memory) const {
  if (!dmaBuf_) return invalidUsage(ErrorCode::GpuDirect, "CUDA device ", device_->ordinal(), " has no DMA-BUF");
  static const auto page = static_cast<Address>(sysconf(_SC_PAGESIZE));
  const Address address = addressOf(memory.base);
  const Address begin = address / page * page;
  const Address end = (address + memory.bytes + page - 1) / page * page;
  const CudaScope scope(*device_);
  int fd = -1;
  TUTTI_CUDA(device_->driver(), cuMemGetHandleForAddressRange(&fd, begin, end - begin, kRangeDmaBuf, 0));
  return DmaBuf{Fd(fd), address - begin};
}

WriteFlush::WriteFlush(const CudaDevice& device) : driver_(device.driver()), needed_(!ordersWrites(device)) {}

Status WriteFlush::operator()() const {
  if (!needed_) return {};
  TUTTI_CUDA(driver_, cuFlushGPUDirectRDMAWrites(kFlushThisContext, kFlushForOwner));
  return {};
}

}  // namespace tutti::cuda
