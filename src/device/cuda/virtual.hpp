// Device memory by the driver's virtual memory management: pages that have no address, and mappings of them.
//
// Pages stay for as long as anybody has a handle or a mapping of them, in whatever process.  So who has mapped a peer's
// memory may read it even after its owner has freed it, which memory of cuMemAlloc does not allow.
#pragma once

#include <memory>
#include <span>

#include "src/base/fd.hpp"
#include "src/device/cuda/device.hpp"

namespace tutti::cuda {

/// A handle of pages, with one owner.  Any thread.
class DevicePages {
 public:
  DevicePages() = default;
  DevicePages(DevicePages&& other) noexcept;
  DevicePages& operator=(DevicePages&& other) noexcept;
  ~DevicePages();

  /// At least `bytes`, in whole granules of the device (2 MiB as a rule), which network adapters can reach (GPUDirect
  /// RDMA) if the device has such pages.  Errors: SystemError when the device has not
  /// that much left; UnhandledCudaError.
  static Result<DevicePages> create(std::shared_ptr<const CudaDevice> device, size_t bytes);
  /// The pages that the mapping around an address shows, whoever made it.  Errors: InvalidArgument: there is none.
  static Result<DevicePages> behind(std::shared_ptr<const CudaDevice> device, const void* address);
  /// From another process's descriptor.  device: who will use them.  bytes: of all the pages, as their owner says.
  /// Errors: UnhandledCudaError.
  static Result<DevicePages> import(std::shared_ptr<const CudaDevice> device, int fd, size_t bytes);

  /// For import() in other processes.  Errors: UnhandledCudaError, also for pages that were not made to be exported.
  Result<Fd> descriptor() const;
  AllocationHandle handle() const { return handle_; }
  const std::shared_ptr<const CudaDevice>& device() const { return device_; }
  size_t bytes() const { return bytes_; }
  /// What addresses of mappings must be multiples of.
  size_t granule() const { return granule_; }

 private:
  std::shared_ptr<const CudaDevice> device_;
  AllocationHandle handle_ = 0;
  bool held_ = false;
  size_t bytes_ = 0;
  size_t granule_ = 0;
};

/// All of some pages at an address of their own.  Nothing may use the address any more when this is destroyed:
/// unmapping waits for nothing.
class DeviceMapping {
 public:
  DeviceMapping() = default;
  DeviceMapping(DeviceMapping&& other) noexcept;
  DeviceMapping& operator=(DeviceMapping&& other) noexcept;
  ~DeviceMapping();
  /// For the device of the pages and all that have peer access to it.  Keeps the pages, but not the handle.  Errors:
  /// UnhandledCudaError.
  static Result<DeviceMapping> of(const DevicePages& pages);
  /// For one device, which may be another than that of the pages.
  static Result<DeviceMapping> forReader(const DevicePages& pages, std::shared_ptr<const CudaDevice> reader);

  Address address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  static Result<DeviceMapping> map(const DevicePages& pages, std::shared_ptr<const CudaDevice> device,
                                   std::span<const MemoryAccess> access);
  std::shared_ptr<const CudaDevice> device_;
  Address address_ = 0;
  size_t bytes_ = 0;
  bool mapped_ = false;
};

/// Whether the device has virtual memory management.
bool hasVirtualMemory(const CudaDevice& device);

}  // namespace tutti::cuda
