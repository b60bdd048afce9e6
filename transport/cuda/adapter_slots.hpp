// Slots of device memory that network adapters read and write, for endpoints over links that take such memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/device/cuda/device.hpp"
#include "transport/transport.hpp"

namespace tutti::cuda {

/// Room for one message; empty, or of memory that lives as long as it is held.
class AdapterSlot {
 public:
  AdapterSlot() = default;
  AdapterSlot(std::shared_ptr<const void> memory, std::byte* data) : memory_(std::move(memory)), data_(data) {}
  std::byte* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::shared_ptr<const void> memory_;
  std::byte* data_ = nullptr;
};

/// Slots for those who may not wait for an allocation, as PinnedReserve has them.  Any thread.
class AdapterSlots {
 public:
  /// Registers memory with the transports that are to use it.
  using Register = std::function<Result<std::vector<std::unique_ptr<MemoryRegistration>>>(const Memory&)>;

  /// First.
  void make(size_t slotBytes, Register with);
  /// Of slotBytes; empty if there is none.
  AdapterSlot take();
  /// fill() is to get so many more.
  void want(size_t slots);
  bool wants();
  /// Takes and registers what is wanted: while nothing waits for who needs it.  What cannot be registered is said once;
  /// endpoints stage by the host then.
  void fill(const std::shared_ptr<const CudaDevice>& device);

 private:
  struct Block {
    DeviceMemory memory;
    std::vector<std::unique_ptr<MemoryRegistration>> kept;
  };
  Result<std::shared_ptr<const Block>> allocate(const std::shared_ptr<const CudaDevice>& device, size_t bytes) const;

  std::mutex mutex_;  // guards what follows
  size_t slotBytes_ = 0;
  Register register_;
  std::vector<AdapterSlot> free_;
  size_t wanted_ = 0;
  bool refused_ = false;
};

}  // namespace tutti::cuda
