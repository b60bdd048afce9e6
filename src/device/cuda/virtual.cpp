#include "src/device/cuda/virtual.hpp"

#include <utility>
#include <vector>

namespace tutti::cuda {
namespace {

bool has(const CudaDevice& device, int attribute) {
  int value = 0;
  return device.driver().cuDeviceGetAttribute(&value, attribute, device.ordinal()) == kSuccess && value != 0;
}

AllocationProperties propertiesOn(const CudaDevice& device) {
  AllocationProperties properties;
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, device.ordinal()};
  if (has(device, kAttributeExportsDescriptors)) properties.handleTypes = kHandleDescriptor;
  // Network adapters can be given no other pages, and there is no asking for it later.
  if (has(device, kAttributeRdmaOfPages)) properties.flags.rdmaCapable = 1;
  return properties;
}

Result<size_t> granuleOf(const CudaDevice& device) {
  const AllocationProperties properties = propertiesOn(device);
  size_t granule = 0;
  TUTTI_CUDA(device.driver(), cuMemGetAllocationGranularity(&granule, &properties, kGranularityMinimum));
  return granule;
}

/// The device itself, and those that can reach it.
Result<std::vector<MemoryAccess>> readersOf(const CudaDevice& device) {
  const Driver& driver = device.driver();
  int count = 0;
  TUTTI_CUDA(driver, cuDeviceGetCount(&count));
  std::vector<MemoryAccess> access;
  for (Device other = 0; other < count; ++other) {
    int can = other == device.ordinal() ? 1 : 0;
    if (can == 0) TUTTI_CUDA(driver, cuDeviceCanAccessPeer(&can, other, device.ordinal()));
    if (can != 0) access.push_back({{kLocationDevice, other}, kAccessReadWrite});
  }
  return access;
}

}  // namespace

bool hasVirtualMemory(const CudaDevice& device) { return has(device, kAttributeVirtualMemory); }

DevicePages::DevicePages(DevicePages&& other) noexcept { *this = std::move(other); }

DevicePages& DevicePages::operator=(DevicePages&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(held_, other.held_);
  std::swap(bytes_, other.bytes_);
  std::swap(granule_, other.granule_);
  return *this;
}

DevicePages::~DevicePages() {
  if (!held_) return;
  const CudaScope scope(*device_);
  device_->driver().cuMemRelease(handle_);
}

Result<DevicePages> DevicePages::create(std::shared_ptr<const CudaDevice> device, size_t bytes) {
  const CudaScope scope(*device);
  const Driver& driver = device->driver();
  DevicePages pages;
  TUTTI_ASSIGN(pages.granule_, granuleOf(*device));
  pages.bytes_ = (bytes + pages.granule_ - 1) / pages.granule_ * pages.granule_;
  const AllocationProperties properties = propertiesOn(*device);
  const Error error = driver.cuMemCreate(&pages.handle_, pages.bytes_, &properties, 0);
  if (error == kErrorOutOfMemory) {
    return systemError(ErrorCode::NoDeviceMemory, "CUDA device ", device->ordinal(), " has no ", bytes, " bytes left");
  }
  TUTTI_TRY(check(driver, error, "cuMemCreate"));
  pages.held_ = true;
  pages.device_ = std::move(device);
  return pages;
}

// Mappings start with the first page, as the driver allows no other.
Result<DevicePages> DevicePages::behind(std::shared_ptr<const CudaDevice> device, const void* address) {
  const CudaScope scope(*device);
  const Driver& driver = device->driver();
  DevicePages pages;
  Address base = 0;
  const bool found = driver.cuMemRetainAllocationHandle(&pages.handle_, const_cast<void*>(address)) == kSuccess;
  if (!found)
    return invalidArgument(ErrorCode::NotOurMemory, address,
                           " is not in a mapping of the driver's virtual memory management");
  pages.held_ = true;
  pages.device_ = std::move(device);
  TUTTI_CUDA(driver, cuMemGetAddressRange(&base, &pages.bytes_, addressOf(address)));
  TUTTI_ASSIGN(pages.granule_, granuleOf(*pages.device_));
  return pages;
}

Result<DevicePages> DevicePages::import(std::shared_ptr<const CudaDevice> device, int fd, size_t bytes) {
  const CudaScope scope(*device);
  DevicePages pages;
  // The driver takes the number itself where it asks for a pointer.
  void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  TUTTI_CUDA(device->driver(), cuMemImportFromShareableHandle(&pages.handle_, number, kHandleDescriptor));
  pages.held_ = true;
  pages.bytes_ = bytes;
  pages.device_ = std::move(device);
  TUTTI_ASSIGN(pages.granule_, granuleOf(*pages.device_));
  return pages;
}

Result<Fd> DevicePages::descriptor() const {
  const CudaScope scope(*device_);
  int fd = -1;
  TUTTI_CUDA(device_->driver(), cuMemExportToShareableHandle(&fd, handle_, kHandleDescriptor, 0));
  return Fd(fd);
}

DeviceMapping::DeviceMapping(DeviceMapping&& other) noexcept { *this = std::move(other); }

DeviceMapping& DeviceMapping::operator=(DeviceMapping&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

DeviceMapping::~DeviceMapping() {
  if (address_ == 0) return;
  const CudaScope scope(*device_);
  if (mapped_) device_->driver().cuMemUnmap(address_, bytes_);
  device_->driver().cuMemAddressFree(address_, bytes_);
}

Result<DeviceMapping> DeviceMapping::map(const DevicePages& pages, std::shared_ptr<const CudaDevice> device,
                                         std::span<const MemoryAccess> access) {
  DeviceMapping mapping;
  mapping.device_ = std::move(device);
  mapping.bytes_ = pages.bytes();
  const CudaScope scope(*mapping.device_);
  const Driver& driver = mapping.device_->driver();
  // What the driver aligns to by itself is not said anywhere.
  TUTTI_CUDA(driver, cuMemAddressReserve(&mapping.address_, mapping.bytes_, pages.granule(), 0, 0));
  TUTTI_CUDA(driver, cuMemMap(mapping.address_, mapping.bytes_, 0, pages.handle(), 0));
  mapping.mapped_ = true;
  TUTTI_CUDA(driver, cuMemSetAccess(mapping.address_, mapping.bytes_, access.data(), access.size()));
  return mapping;
}

Result<DeviceMapping> DeviceMapping::of(const DevicePages& pages) {
  TUTTI_ASSIGN(const std::vector<MemoryAccess> access, readersOf(*pages.device()));
  return map(pages, pages.device(), access);
}

Result<DeviceMapping> DeviceMapping::forReader(const DevicePages& pages, std::shared_ptr<const CudaDevice> reader) {
  const MemoryAccess access{{kLocationDevice, reader->ordinal()}, kAccessReadWrite};
  return map(pages, std::move(reader), {&access, 1});
}

}  // namespace tutti::cuda
