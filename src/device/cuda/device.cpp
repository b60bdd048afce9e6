#include "src/device/cuda/device.hpp"

#include <thread>
#include <utility>

namespace tutti::cuda {

std::string describe(const MemoryInfo& info) {
  switch (info.kind) {
    case MemoryInfo::Kind::Pageable: return "pageable host memory";
    case MemoryInfo::Kind::Pinned: return "pinned host memory";
    case MemoryInfo::Kind::OnDevice: return cat("memory of CUDA device ", info.device);
    case MemoryInfo::Kind::Managed: return "managed memory";
  }
  return "memory";
}

Result<Device> currentDevice() {
  TUTTI_ASSIGN(const Driver* d, driver());
  Device device = 0;
  // Without a current context the call fails, and a runtime program would be on device 0.
  if (d->cuCtxGetDevice(&device) != kSuccess) device = 0;
  return device;
}

Result<std::shared_ptr<CudaDevice>> CudaDevice::open(Device ordinal) {
  TUTTI_ASSIGN(const Driver* d, tutti::cuda::driver());
  int count = 0;
  TUTTI_CUDA(*d, cuDeviceGetCount(&count));
  if (ordinal < 0 || ordinal >= count) {
    return invalidArgument(ErrorCode::NoSuchDevice, "there is no CUDA device ", ordinal, "; the driver shows ", count);
  }
  const BesideCaptures beside(*d);
  std::shared_ptr<CudaDevice> device(new CudaDevice(*d, ordinal));
  TUTTI_CUDA(*d, cuDevicePrimaryCtxRetain(&device->context_, ordinal));
  TUTTI_TRY(device->readAttributes());
  return device;
}

Status CudaDevice::readAttributes() {
  Uuid uuid;
  TUTTI_CUDA(driver_, cuDeviceGetUuid(&uuid, ordinal_));
  uuid_.assign(uuid.bytes, sizeof uuid.bytes);
  char busId[32] = "";
  TUTTI_CUDA(driver_, cuDeviceGetPCIBusId(busId, sizeof busId, ordinal_));
  busId_ = busId;
  TUTTI_CUDA(driver_, cuDeviceGetAttribute(&multiprocessors_, kAttributeMultiprocessors, ordinal_));
  int unified = 0;
  TUTTI_CUDA(driver_, cuDeviceGetAttribute(&unified, kAttributeUnifiedAddressing, ordinal_));
  if (unified == 0) {
    return invalidUsage(ErrorCode::NoCudaDriver, "CUDA device ", ordinal_,
                        " has no unified addressing, without which it has pinned memory ",
                        "at other addresses than the host");
  }
  int major = 0, minor = 0, clockKHz = 0, busBits = 0;
  TUTTI_CUDA(driver_, cuDeviceGetAttribute(&major, kAttributeMajor, ordinal_));
  TUTTI_CUDA(driver_, cuDeviceGetAttribute(&minor, kAttributeMinor, ordinal_));
  TUTTI_CUDA(driver_, cuDeviceGetAttribute(&clockKHz, kAttributeMemoryClockKHz, ordinal_));
  TUTTI_CUDA(driver_, cuDeviceGetAttribute(&busBits, kAttributeMemoryBusBits, ordinal_));
  computeCapability_ = 10 * major + minor;
  memoryGBps_ = 2.0 * clockKHz * busBits / 8 / 1e6;  // of double data rate
  int pageable = 0;
  TUTTI_CUDA(driver_, cuDeviceGetAttribute(&pageable, kAttributePageableAccess, ordinal_));
  pageableAccess_ = pageable != 0;
  int pools = 0;
  TUTTI_CUDA(driver_, cuDeviceGetAttribute(&pools, kAttributeMemoryPools, ordinal_));
  hasPools_ = pools != 0;
  return {};
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  const BesideCaptures beside(driver_);
  driver_.cuDevicePrimaryCtxRelease(ordinal_);
}

Result<Stream> CudaDevice::urgentStream() const {
  int least = 0, greatest = 0;
  Stream stream = nullptr;
  TUTTI_CUDA(driver_, cuCtxGetStreamPriorityRange(&least, &greatest));
  TUTTI_CUDA(driver_, cuStreamCreateWithPriority(&stream, kStreamNonBlocking, greatest));
  return stream;
}

Result<MemoryInfo> CudaDevice::memoryInfo(const void* address) const {
  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = -1;
  int attributes[] = {kPointerMemoryType, kPointerIsManaged, kPointerDeviceOrdinal};
  void* values[] = {&type, &managed, &ordinal};
  TUTTI_CUDA(driver_, cuPointerGetAttributes(3, attributes, values, addressOf(address)));
  MemoryInfo info;
  info.device = ordinal;
  if (managed != 0) {
    info.kind = MemoryInfo::Kind::Managed;
  } else if (type == kMemoryTypeDevice) {
    info.kind = MemoryInfo::Kind::OnDevice;
  } else if (type == kMemoryTypeHost) {
    info.kind = MemoryInfo::Kind::Pinned;
  }
  return info;
}

/// Of pinned memory: whether the device has it at another address than the host, as it may have what is write-combined
/// or was registered with cuMemHostRegister.
bool CudaDevice::elsewhereOnDevice(const void* address) const {
  Address there = 0;
  int attribute = kPointerDevicePointer;
  void* value = &there;
  const Error error = driver_.cuPointerGetAttributes(1, &attribute, &value, addressOf(address));
  return error == kSuccess && there != 0 && there != addressOf(address);
}

Status CudaDevice::checkUsable(const void* address, const char* name) const {
  TUTTI_ASSIGN(const MemoryInfo info, memoryInfo(address));
  if (info.kind == MemoryInfo::Kind::Pageable && !pageableAccess_) {
    return invalidArgument(ErrorCode::BufferNotOnDevice, name, " ", address,
                           " is pageable host memory, which CUDA device ", ordinal_,
                           " cannot reach; pass device, managed or pinned memory");
  }
  if (info.kind == MemoryInfo::Kind::Pinned && elsewhereOnDevice(address)) {
    return invalidArgument(ErrorCode::BufferNotOnDevice, name, " ", address, " is pinned host memory that CUDA device ",
                           ordinal_,
                           " has at another address (write-combined or registered); pass memory of cudaHostAlloc "
                           "without cudaHostAllocWriteCombined");
  }
  if (info.kind == MemoryInfo::Kind::OnDevice && info.device != ordinal_) {
    return invalidArgument(ErrorCode::BufferNotOnDevice, name, " ", address, " is ", describe(info),
                           ", but this communicator is on device ", ordinal_);
  }
  return {};
}

BesideCaptures::BesideCaptures(const Driver& driver) : driver_(driver) {
  driver_.cuThreadExchangeStreamCaptureMode(&mode_);
}

BesideCaptures::~BesideCaptures() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

CudaScope::CudaScope(const CudaDevice& device) : driver_(device.driver()), beside_(driver_) {
  pushed_ = driver_.cuCtxPushCurrent(device.context()) == kSuccess;
}

CudaScope::~CudaScope() {
  Context popped = nullptr;
  if (pushed_) driver_.cuCtxPopCurrent(&popped);
}

Status waitForStream(const CudaDevice& device, Stream stream) {
  for (int looks = 0;; ++looks) {
    const Error error = device.driver().cuStreamQuery(stream);
    if (error != kErrorNotReady) return check(device.driver(), error, "cuStreamQuery");
    if (looks < 100) {
      std::this_thread::yield();
    } else {
      pauseBetweenLooks();
    }
  }
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  const CudaScope scope(*device_);
  device_->driver().cuMemFree(address_);
}

Result<DeviceMemory> DeviceMemory::allocate(std::shared_ptr<const CudaDevice> device, size_t bytes) {
  return take(std::move(device), bytes, nullptr);
}

Result<DeviceMemory> DeviceMemory::allocateOn(Stream stream, std::shared_ptr<const CudaDevice> device, size_t bytes) {
  return take(std::move(device), bytes, &stream);
}

Result<DeviceMemory> DeviceMemory::take(std::shared_ptr<const CudaDevice> device, size_t bytes, const Stream* stream) {
  DeviceMemory memory;
  if (bytes == 0) return memory;
  const CudaScope scope(*device);
  const Driver& driver = device->driver();
  const Error error = stream != nullptr && device->hasPools() ? driver.cuMemAllocAsync(&memory.address_, bytes, *stream)
                                                              : driver.cuMemAlloc(&memory.address_, bytes);
  if (error == kErrorOutOfMemory) {
    return systemError(ErrorCode::NoDeviceMemory, "CUDA device ", device->ordinal(), " has no ", bytes, " bytes left");
  }
  TUTTI_TRY(check(driver, error, "an allocation of device memory"));
  memory.device_ = std::move(device);
  memory.bytes_ = bytes;
  return memory;
}

Status DeviceMemory::freeOn(Stream stream) {
  if (address_ == 0) return {};
  const CudaScope scope(*device_);
  if (!device_->hasPools()) {
    TUTTI_TRY(waitForStream(*device_, stream));
    *this = DeviceMemory();
    return {};
  }
  bytes_ = 0;
  TUTTI_CUDA(device_->driver(), cuMemFreeAsync(std::exchange(address_, 0), stream));
  return {};
}

// On a stream of its own, because nothing of ours may wait for what the user has on the default stream.
Status DeviceMemory::zero() const { return zeroFirst(bytes_, bytes_); }

Status DeviceMemory::zeroFirst(size_t bytes, size_t every) const {
  const CudaScope scope(*device_);
  const Driver& driver = device_->driver();
  Stream stream = nullptr;
  TUTTI_CUDA(driver, cuStreamCreate(&stream, kStreamNonBlocking));
  Error failed = kSuccess;
  for (size_t at = 0; failed == kSuccess && at < bytes_; at += every) {
    failed = driver.cuMemsetD8Async(address_ + at, 0, std::min(bytes, bytes_ - at), stream);
  }
  // Also behind a failure: the caller frees the memory, which nothing enqueued may still write.
  const Error ended = driver.cuStreamSynchronize(stream);
  if (ended != kSuccess) driver.cuStreamSynchronize(stream);
  if (failed == kSuccess) failed = ended;
  driver.cuStreamDestroy(stream);
  return check(driver, failed, "zeroing device memory");
}

}  // namespace tutti::cuda
