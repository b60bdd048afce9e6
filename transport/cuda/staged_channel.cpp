#include "transport/cuda/staged_channel.hpp"

namespace tutti::cuda {

Status StagedChannel::prepare(Bounce* bounce) {
  if (bounce->memory.data() != nullptr) return {};
  TUTTI_TRY(bounce->event.create(ops_.device()));
  TUTTI_ASSIGN(bounce->memory, PinnedMemory::allocate(ops_.device(), slotBytes()));
  return {};
}

Status StagedChannel::mark(Bounce* bounce) {
  TUTTI_CUDA(ops_.device()->driver(), cuEventRecord(bounce->event.get(), ops_.stream()));
  bounce->busy = true;
  return {};
}

Result<bool> StagedChannel::settled(Bounce* bounce) {
  if (!bounce->busy) return true;
  const Driver& driver = ops_.device()->driver();
  const Error error = driver.cuEventQuery(bounce->event.get());
  if (error == kErrorNotReady) return false;
  TUTTI_TRY(check(driver, error, "cuEventQuery"));
  bounce->busy = false;
  return true;
}

Result<std::byte*> StagedChannel::stage(DeviceMemory* memory) {
  if (memory->bytes() == 0) {
    TUTTI_ASSIGN(*memory, DeviceMemory::allocate(ops_.device(), slotBytes()));
  }
  return memory->data();
}

// Also a message without bytes waits for the stream: it says that this rank has come there.
Result<bool> StagedChannel::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!sending_) {
    TUTTI_TRY(prepare(&out_));
    TUTTI_TRY(ops_.copy(out_.memory.data(), data, bytes));
    TUTTI_TRY(mark(&out_));
    sending_ = true;
  }
  TUTTI_ASSIGN(const bool copied, settled(&out_));
  if (!copied) return false;
  TUTTI_ASSIGN(const bool gone, host_->send(bytes == 0 ? nullptr : out_.memory.data(), bytes, call));
  sending_ = !gone;
  return gone;
}

Result<std::span<std::byte>> StagedChannel::reserve() {
  TUTTI_ASSIGN(std::byte * room, stage(&stagedOut_));
  return std::span(room, slotBytes());
}

Result<bool> StagedChannel::commit(size_t bytes, const Fingerprint& call) {
  return send(stagedOut_.data(), bytes, call);
}

Result<bool> StagedChannel::receive(std::byte* dst, const Expect& expect) {
  TUTTI_TRY(prepare(&in_));
  TUTTI_ASSIGN(const bool free, settled(&in_));  // the copy of the message before
  if (!free) return false;
  const Result<bool> came = host_->receive(in_.memory.data(), expect);
  if (!came.ok()) seen_ = host_->seen();
  if (!came.ok() || !*came || expect.bytes == 0) return came;
  TUTTI_TRY(ops_.copy(dst, in_.memory.data(), expect.bytes));
  TUTTI_TRY(mark(&in_));
  return true;
}

Result<const std::byte*> StagedChannel::peek(const Expect& expect) {
  TUTTI_ASSIGN(std::byte * room, stage(&stagedIn_));
  if (!peeked_) {
    TUTTI_ASSIGN(peeked_, receive(room, expect));
  }
  return static_cast<const std::byte*>(peeked_ ? room : nullptr);
}

}  // namespace tutti::cuda
