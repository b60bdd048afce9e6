// One CUDA device as a communicator uses it: its primary context, which is also the CUDA runtime's, and its memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "src/base/clock.hpp"
#include "src/base/status.hpp"
#include "src/device/cuda/driver.hpp"

namespace tutti::cuda {

/// Where an address lies, as the driver sees it.
struct MemoryInfo {
  enum class Kind { Pageable, Pinned, OnDevice, Managed };
  Kind kind = Kind::Pageable;
  int device = -1;  // of OnDevice and Managed
};

/// What a MemoryInfo is called in sentences: "pageable host memory", "memory of CUDA device 2".
std::string describe(const MemoryInfo& info);

/// The device of the calling thread's current context, 0 without one.  Errors: those of driver().
Result<Device> currentDevice();

/// Holds the device's primary context.  Any thread.
class CudaDevice {
 public:
  /// Errors: those of driver(); InvalidArgument: there is no such device; UnhandledCudaError.
  static Result<std::shared_ptr<CudaDevice>> open(Device ordinal);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Driver& driver() const { return driver_; }
  Device ordinal() const { return ordinal_; }
  Context context() const { return context_; }
  /// 16 bytes that name the device, the same in all processes of the host.
  const std::string& uuid() const { return uuid_; }
  /// Its address on PCI, as "0000:1b:00.0".
  const std::string& busId() const { return busId_; }
  int multiprocessors() const { return multiprocessors_; }
  /// Times 10: 90.
  int computeCapability() const { return computeCapability_; }
  /// That the bus of the device's memory carries, reads and writes together; 0: the driver does not tell.
  double memoryGBps() const { return memoryGBps_; }
  /// Whether memory can be allocated in the order of a stream.
  bool hasPools() const { return hasPools_; }

  // With the context current:
  /// What memory `address` is in.  Errors: UnhandledCudaError.
  Result<MemoryInfo> memoryInfo(const void* address) const;
  /// Ok if kernels and copies of this device may use `address`.  Errors: InvalidArgument "NAME is ..., which ...".
  Status checkUsable(const void* address, const char* name) const;
  /// A stream of the greatest priority, which waits for no other; the caller's to destroy.  Errors: UnhandledCudaError.
  Result<Stream> urgentStream() const;

 private:
  CudaDevice(const Driver& driver, Device ordinal) : driver_(driver), ordinal_(ordinal) {}
  Status readAttributes();
  bool elsewhereOnDevice(const void* address) const;

  const Driver& driver_;
  Device ordinal_;
  Context context_ = nullptr;
  std::string uuid_;
  std::string busId_;
  int multiprocessors_ = 1;
  int computeCapability_ = 0;
  double memoryGBps_ = 0;
  bool pageableAccess_ = false;
  bool hasPools_ = false;
};

/// While this lives, stream captures do not forbid this thread what set-up and polling need (allocations, module loads,
/// event queries), nor do these invalidate them: this thread's captures, and those that others have begun in the global
/// mode.
class BesideCaptures {
 public:
  explicit BesideCaptures(const Driver& driver);
  ~BesideCaptures();
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  const Driver& driver_;
  int mode_ = kCaptureModeRelaxed;
};

/// The device's context is current on this thread while this lives, beside captures; then what was current before is
/// again.
class CudaScope {
 public:
  explicit CudaScope(const CudaDevice& device);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

 private:
  const Driver& driver_;
  BesideCaptures beside_;
  bool pushed_ = false;
};

using tutti::pauseBetweenLooks;

/// Waits until the stream has done what it has to do, with the context current, and ends where communicators end their
/// waits: at their deadline, or when they are aborted.  Errors: UnhandledCudaError.
Status waitForStream(const CudaDevice& device, Stream stream);

/// Device memory with one owner.  Zero bytes: a null address.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();
  /// May wait for all that the device has to do.  Errors: SystemError when the device has not that much left;
  /// UnhandledCudaError.
  static Result<DeviceMemory> allocate(std::shared_ptr<const CudaDevice> device, size_t bytes);
  /// For what is enqueued on the stream alone, and waits for nothing, where the device has memory pools.  Nothing may
  /// use it any more when it is destroyed.
  static Result<DeviceMemory> allocateOn(Stream stream, std::shared_ptr<const CudaDevice> device, size_t bytes);

  /// Frees it when the stream has done what it has to do, for which this waits where the device has no pools.  Errors:
  /// UnhandledCudaError.
  Status freeOn(Stream stream);
  /// Fills it with zeros, and waits for that: not while anything that is enqueued may wait for this thread.
  Status zero() const;
  /// The same of the first `bytes` of every so many.
  Status zeroFirst(size_t bytes, size_t every) const;

  Address address() const { return address_; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  size_t bytes() const { return bytes_; }

 private:
  static Result<DeviceMemory> take(std::shared_ptr<const CudaDevice> device, size_t bytes, const Stream* stream);
  std::shared_ptr<const CudaDevice> device_;
  Address address_ = 0;
  size_t bytes_ = 0;
};

inline Address addressOf(const void* pointer) { return reinterpret_cast<Address>(pointer); }

}  // namespace tutti::cuda
