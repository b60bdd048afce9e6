#include "transport/cuda/staged_endpoint.hpp"

#include <utility>

namespace tutti::cuda {

PinnedMemory PinnedReserve::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (PinnedMemory& memory : free_) {
    if (memory.bytes() == bytes) return std::exchange(memory, PinnedMemory());
  }
  return {};
}

void PinnedReserve::want(size_t bytes) {
  const std::lock_guard lock(mutex_);
  wanted_.push_back(bytes);
}

bool PinnedReserve::wants() {
  const std::lock_guard lock(mutex_);
  return !wanted_.empty();
}

void PinnedReserve::fill(const std::shared_ptr<const CudaDevice>& device) {
  std::vector<size_t> wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted.swap(wanted_);
    std::erase_if(free_, [](const PinnedMemory& memory) { return memory.data() == nullptr; });
  }
  for (const size_t bytes : wanted) {
    Result<PinnedMemory> memory = PinnedMemory::allocate(device, bytes);
    if (!memory.ok()) return;  // ordinary memory does as well, slower
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(memory).value());
  }
}

/// The bounce is not in use.
Status StagedEndpoint::prepareEvent(Bounce* bounce) {
  return bounce->event.get() == nullptr ? bounce->event.create(ops_.device()) : Status();
}

/// The same.
Status StagedEndpoint::prepare(Bounce* bounce) {
  if (bounce->pinned.data() != nullptr) return {};
  TUTTI_TRY(prepareEvent(bounce));
  if (staging_ == Staging::None) return {};
  bounce->pinned = reserve_->take(slotBytes());
  if (bounce->pinned.data() != nullptr) {
    bounce->ordinary.reset();
  } else if (bounce->ordinary == nullptr) {
    reserve_->want(slotBytes());
    bounce->ordinary = std::make_unique<std::byte[]>(slotBytes());
  }
  return {};
}

// Behind all that other endpoints have gathered, too.
Status StagedEndpoint::mark(Bounce* bounce) {
  TUTTI_TRY(ops_.flush());
  TUTTI_CUDA(ops_.device()->driver(), cuEventRecord(bounce->event.get(), ops_.stream()));
  bounce->busy = true;
  return {};
}

Result<bool> StagedEndpoint::settled(Bounce* bounce) {
  if (!bounce->busy) return true;
  const Driver& driver = ops_.device()->driver();
  const Error error = driver.cuEventQuery(bounce->event.get());
  if (error == kErrorNotReady) return false;
  TUTTI_TRY(check(driver, error, "cuEventQuery"));
  bounce->busy = false;
  return true;
}

Result<std::byte*> StagedEndpoint::stage(DeviceMemory* memory) {
  if (memory->bytes() == 0) {
    TUTTI_TRY(ops_.flush());
    TUTTI_ASSIGN(*memory, DeviceMemory::allocateOn(ops_.stream(), ops_.device(), slotBytes()));
  }
  return memory->data();
}

Result<bool> StagedEndpoint::remembered(Result<bool> ofHost) {
  if (!ofHost.ok() && error_.ok()) error_ = ofHost.status();
  return ofHost;
}

Status StagedEndpoint::begin(const std::byte* data, size_t bytes) {
  TUTTI_TRY(prepare(&out_));
  if (staging_ != Staging::None) TUTTI_TRY(ops_.copy(out_.data(), data, bytes));
  return mark(&out_);
}

Result<bool> StagedEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (sends_ == Way::Undecided) {
    TUTTI_ASSIGN(sends_, staging_ == Staging::Adapter && bytes > 0 ? beginLent(data, bytes) : Way::Host);
    if (sends_ == Way::Undecided) return false;
  }
  TUTTI_ASSIGN(const bool gone, sends_ == Way::Slot ? sendLent(data, bytes, call) : sendStaged(data, bytes, call));
  if (gone) sends_ = Way::Undecided;
  return gone;
}

/// Undecided: the slot is still being read by the peer.
Result<StagedEndpoint::Way> StagedEndpoint::beginLent(const std::byte* data, size_t bytes) {
  Lent& next = lent_[turn_];
  if (next.request != 0) {
    TUTTI_ASSIGN(const bool taken, remembered(host_->test(next.request)));
    if (!taken) return Way::Undecided;
    next.request = 0;
  }
  if (!next.slot) next.slot = adapter_.slots->take();
  if (!next.slot) {
    adapter_.slots->want(1);
    return Way::Host;
  }
  if (!host_->takes(next.slot.data(), bytes)) return Way::Host;
  TUTTI_TRY(prepareEvent(&next.copied));
  TUTTI_TRY(ops_.copy(next.slot.data(), data, bytes));
  TUTTI_TRY(mark(&next.copied));
  return Way::Slot;
}

Result<bool> StagedEndpoint::sendLent(const std::byte*, size_t bytes, const Fingerprint& call) {
  Lent& next = lent_[turn_];
  TUTTI_ASSIGN(const bool copied, settled(&next.copied));
  if (!copied) return false;
  const Result<Request> posted = host_->postSend(next.slot.data(), bytes, call);
  if (!posted.ok()) return remembered(posted.status());
  next.request = *posted;
  if (next.request == 0) return false;
  turn_ = 1 - turn_;
  sentByAdapter_ += bytes;
  return true;
}

// Also a message without bytes waits for the stream: it says that this rank has come there.
Result<bool> StagedEndpoint::sendStaged(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!sending_) {
    TUTTI_TRY(begin(data, bytes));
    sending_ = true;
  }
  TUTTI_ASSIGN(const bool there, settled(&out_));
  if (!there) return false;
  const std::byte* const from = staging_ == Staging::None ? data : out_.data();
  TUTTI_ASSIGN(const bool gone, remembered(host_->send(bytes == 0 ? nullptr : from, bytes, call)));
  sending_ = !gone;
  if (gone) sentBytes_ += bytes;
  return gone;
}

// The host endpoint's own requests, which need nothing more of this one, so that who posts may wait for something else.
Result<Request> StagedEndpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  const bool straight = staging_ == Staging::Adapter && bytes > 0 && !sendsWait() && host_->takes(data, bytes);
  if (!straight) return Endpoint::postSend(data, bytes, call);
  TUTTI_TRY(error_);
  if (!posting_) {
    TUTTI_TRY(prepareEvent(&posted_));
    TUTTI_TRY(mark(&posted_));
    posting_ = true;
  }
  TUTTI_ASSIGN(const bool came, settled(&posted_));
  if (!came) return Request{0};
  const Result<Request> posted = host_->postSend(data, bytes, call);
  if (!posted.ok()) return remembered(posted.status()).status();
  if (*posted != 0) {
    posting_ = false;
    sentByAdapter_ += bytes;
  }
  return posted;
}

Result<bool> StagedEndpoint::test(Request request) {
  if ((request & (kReceiveRequest | kSendInLine)) != 0) return Endpoint::test(request);
  return remembered(host_->test(request));
}

Result<std::span<std::byte>> StagedEndpoint::reserve() {
  TUTTI_TRY(error_);
  TUTTI_ASSIGN(std::byte * room, stage(&stagedOut_));
  return std::span(room, slotBytes());
}

Result<bool> StagedEndpoint::commit(size_t bytes, const Fingerprint& call) {
  return send(stagedOut_.data(), bytes, call);
}

/// What the stream does with `dst` before has to be done.
Result<bool> StagedEndpoint::receiveStraight(std::byte* dst, const Expect& expect) {
  TUTTI_TRY(error_);
  if (!receiving_) {
    TUTTI_TRY(prepare(&in_));
    TUTTI_TRY(mark(&in_));
    receiving_ = true;
  }
  TUTTI_ASSIGN(const bool free, settled(&in_));
  if (!free) return false;
  const Result<bool> came = remembered(host_->receive(dst, expect));
  if (!came.ok()) seen_ = host_->seen();
  receiving_ = came.ok() && !*came;
  if (came.ok() && *came) TUTTI_TRY(flush());
  return came;
}

Result<bool> StagedEndpoint::receive(std::byte* dst, const Expect& expect) {
  if (staging_ == Staging::None) return receiveStraight(dst, expect);
  if (receives_ == Way::Undecided) {
    const bool byAdapter = staging_ == Staging::Adapter && expect.bytes > 0;
    TUTTI_ASSIGN(receives_, byAdapter ? beginReceive(dst, expect.bytes) : Way::Host);
  }
  TUTTI_ASSIGN(const bool came, receives_ == Way::Host ? receiveStaged(dst, expect) : receiveByAdapter(dst, expect));
  if (came) receives_ = Way::Undecided;
  return came;
}

/// Straight if that memory is registered; then what the stream does with it before has to be done.
Result<StagedEndpoint::Way> StagedEndpoint::beginReceive(const std::byte* dst, size_t bytes) {
  TUTTI_TRY(prepareEvent(&in_));
  if (host_->takes(dst, bytes)) {
    TUTTI_TRY(mark(&in_));
    return Way::Straight;
  }
  if (!slotIn_) slotIn_ = adapter_.slots->take();
  if (!slotIn_) adapter_.slots->want(1);
  return slotIn_ && host_->takes(slotIn_.data(), bytes) ? Way::Slot : Way::Host;
}

// What comes is flushed before anything that reads it is enqueued.
Result<bool> StagedEndpoint::receiveByAdapter(std::byte* dst, const Expect& expect) {
  TUTTI_TRY(error_);
  TUTTI_ASSIGN(const bool free, settled(&in_));  // of a slot: the copy of the message before
  if (!free) return false;
  if (incoming_ == 0) {
    const Result<Request> posted = host_->postReceive(receives_ == Way::Slot ? slotIn_.data() : dst, expect);
    if (!posted.ok()) return remembered(posted.status());
    incoming_ = *posted;
    if (incoming_ == 0) return false;
  }
  const Result<bool> came = remembered(host_->test(incoming_));
  if (!came.ok()) seen_ = host_->seen();
  if (!came.ok() || !*came) return came;
  incoming_ = 0;
  TUTTI_TRY(flush());
  if (receives_ == Way::Straight) return true;
  TUTTI_TRY(ops_.copy(dst, slotIn_.data(), expect.bytes));
  TUTTI_TRY(mark(&in_));
  return true;
}

Result<bool> StagedEndpoint::receiveStaged(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const bool free, settled(&in_));  // the copy of the message before
  if (!free) return false;
  TUTTI_TRY(prepare(&in_));
  const Result<bool> came = remembered(host_->receive(in_.data(), expect));
  if (!came.ok()) seen_ = host_->seen();
  if (!came.ok() || !*came || expect.bytes == 0) return came;
  receivedStaged_ += expect.bytes;
  TUTTI_TRY(ops_.copy(dst, in_.data(), expect.bytes));
  TUTTI_TRY(mark(&in_));
  return true;
}

Result<const std::byte*> StagedEndpoint::peek(const Expect& expect) {
  TUTTI_ASSIGN(std::byte * room, stage(&stagedIn_));
  if (!peeked_) {
    TUTTI_ASSIGN(peeked_, receive(room, expect));
  }
  return static_cast<const std::byte*>(peeked_ ? room : nullptr);
}

}  // namespace tutti::cuda
