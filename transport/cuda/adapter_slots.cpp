#include "transport/cuda/adapter_slots.hpp"

#include <utility>

#include "src/base/log.hpp"

namespace tutti::cuda {
namespace {

// Registered in whole pages, which hold nothing else then.
constexpr size_t kPageBytes = 64 << 10;

}  // namespace

void AdapterSlots::make(size_t slotBytes, Register with) {
  const std::lock_guard lock(mutex_);
  slotBytes_ = (slotBytes + 255) / 256 * 256;
  register_ = std::move(with);
}

AdapterSlot AdapterSlots::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return {};
  AdapterSlot slot = std::move(free_.back());
  free_.pop_back();
  return slot;
}

void AdapterSlots::want(size_t slots) {
  const std::lock_guard lock(mutex_);
  if (!refused_) wanted_ += slots;
}

bool AdapterSlots::wants() {
  const std::lock_guard lock(mutex_);
  return wanted_ > 0;
}

Result<std::shared_ptr<const AdapterSlots::Block>> AdapterSlots::allocate(
    const std::shared_ptr<const CudaDevice>& device, size_t bytes) const {
  auto block = std::make_shared<Block>();
  const CudaScope scope(*device);
  TUTTI_ASSIGN(block->memory, DeviceMemory::allocate(device, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes));
  if (register_ == nullptr) return internalError(ErrorCode::PartMisused, "no transport takes it");
  TUTTI_ASSIGN(block->kept,
               register_({MemoryKind::Device, device->ordinal(), block->memory.data(), block->memory.bytes()}));
  if (block->kept.empty()) return internalError(ErrorCode::PartMisused, "no transport has registered it");
  return std::shared_ptr<const Block>(std::move(block));
}

// One block of all of them: registrations are few, and take long.
void AdapterSlots::fill(const std::shared_ptr<const CudaDevice>& device) {
  const std::lock_guard lock(mutex_);
  const size_t wanted = std::exchange(wanted_, 0);
  if (wanted == 0 || refused_) return;
  Result<std::shared_ptr<const Block>> block = allocate(device, wanted * slotBytes_);
  if (!block.ok()) {
    refused_ = true;
    TUTTI_WARN("cuda", "messages of CUDA device ", device->ordinal(),
               " pass through the host, as adapters cannot be given its memory: ", block.status().message());
    return;
  }
  for (size_t slot = 0; slot < wanted; ++slot) {
    free_.emplace_back(*block, (*block)->memory.data() + slot * slotBytes_);
  }
}

}  // namespace tutti::cuda
