// Device memory that processes of one host open by IPC handles.
//
// CUDA leaves it undefined what happens when such memory is freed while another process has it open.  So what this
// process has offered is freed when its readers (readers.hpp) have closed it, and not before.
#pragma once

#include <memory>

#include "src/device/cuda/device.hpp"
#include "transport/cuda/readers.hpp"

namespace tutti::cuda {

/// A handle by which other processes can open an allocation of cuMemAlloc, and whether the driver gives one.
struct IpcOffer {
  uint64_t given = 0;
  IpcHandle handle{};
};
/// address: the start of the allocation.  device: whose memory it is.
IpcOffer offerByIpc(const CudaDevice& device, Address address);

/// Device memory of this process that others may have open.  Any thread.
class OfferedMemory {
 public:
  OfferedMemory() = default;
  OfferedMemory(OfferedMemory&& other) noexcept = default;
  OfferedMemory& operator=(OfferedMemory&& other) noexcept;
  /// Frees it now; if somebody has it open still, by sweep().  Its readers have been ended (Readers::end).
  ~OfferedMemory();
  /// Errors: as DeviceMemory::allocate.
  static Result<OfferedMemory> allocate(std::shared_ptr<const CudaDevice> device, size_t bytes,
                                        std::shared_ptr<const Readers> readers);
  /// For this process alone.  As DeviceMemory::allocateOn.
  static Result<OfferedMemory> allocateOn(Stream stream, std::shared_ptr<const CudaDevice> device, size_t bytes);

  /// As DeviceMemory::zero.
  Status zero() const { return memory_.zero(); }
  Status zeroFirst(size_t bytes, size_t every) const { return memory_.zeroFirst(bytes, every); }
  Address address() const { return memory_.address(); }
  size_t bytes() const { return memory_.bytes(); }
  const std::shared_ptr<const Readers>& readers() const { return readers_; }

  /// Frees what has been closed since.
  static void sweep();

 private:
  DeviceMemory memory_;
  std::shared_ptr<const Readers> readers_;
};

/// What another process has offered; open while this lives.  Empty: a null address.  However often a process opens an
/// allocation, the driver opens it once: which drivers count openings, and which refuse the second, is their versions'
/// matter.
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
  struct Opening;
  static std::shared_ptr<Opening> openingOf(const CudaDevice& device, const IpcHandle& handle);
  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<Opening> opening_;
  Address address_ = 0;
};

}  // namespace tutti::cuda
