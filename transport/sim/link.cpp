#include "transport/sim/link.hpp"

#include <cstring>

#include "src/base/assert.hpp"
#include "transport/mismatch.hpp"

namespace tutti::sim {

void Link::post(int side, std::function<void(End&)> store) {
  if (down) return;
  world.post(ends[side].node, ends[1 - side].node, [self = shared_from_this(), side, store = std::move(store)] {
    if (!self->down) store(self->ends[1 - side]);
  });
}

// The payload first, then (by the sender's counter) the news of it, as on a machine that keeps stores in order.
void Link::postSlot(int side, uint32_t slot, Slot content) {
  const bool breaks = options.breaksPerMillion > 0 && world.random() % 1'000'000 < options.breaksPerMillion;
  if (breaks) return breakDown("was lost");
  post(side, [slot, content = std::move(content)](End& end) { end.slots[slot] = content; });
}

void Link::close(int side) {
  const Status status = remoteError("rank ", ends[side].rank, " has closed its sim channel (lane ", lane, ")");
  post(side, [status](End& end) { end.closed = status; });
}

void Link::breakDown(const char* why) {
  if (down) return;
  down = true;
  for (int side : {0, 1}) {
    fail(side, remoteError("the sim link to rank ", ends[1 - side].rank, " ", why, " (lane ", lane, ")"), someDelay());
  }
}

void Link::fail(int side, const Status& status, int64_t afterNs) {
  world.at(world.nowNs() + afterNs, [self = shared_from_this(), side, status] {
    if (self->ends[side].broken.ok()) self->ends[side].broken = status;
  });
}

SimChannel::SimChannel(std::shared_ptr<Link> link, int side)
    : link_(std::move(link)),
      side_(side),
      sender_(Words(link_.get(), side), link_->options.slots),
      receiver_(Words(link_.get(), side), link_->options.slots),
      staging_(link_->options.slotBytes) {}

SimChannel::~SimChannel() {
  withdraw();
  link_->close(side_);
}

Result<bool> SimChannel::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_ASSERT_CMP(bytes, <=, slotBytes());
  TUTTI_TRY(failedToSend());
  if (!sender_.claim()) return false;
  publish({bytes, call, nullptr, std::vector<std::byte>(data, data + bytes)});
  return true;
}

Result<std::span<std::byte>> SimChannel::reserve() {
  TUTTI_TRY(failedToSend());
  if (!sender_.claim()) return std::span<std::byte>{};
  return std::span<std::byte>(staging_);
}

Result<bool> SimChannel::commit(size_t bytes, const Fingerprint& call) { return send(staging_.data(), bytes, call); }

bool SimChannel::canOffer(const std::byte* /*data*/, size_t bytes) const { return bytes <= maxDirectBytes(); }

Result<Ticket> SimChannel::offer(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_TRY(failedToSend());
  if (!canOffer(data, bytes) || !sender_.claim()) return Ticket{0};
  // A null pointer is how a slot says that its payload is its own; nothing is read of an empty offer.
  return publish({bytes, call, bytes == 0 ? nullptr : data, {}});
}

Result<bool> SimChannel::taken(Ticket ticket) {
  if (sender_.isReleased(ticket)) return true;
  TUTTI_TRY(failedToSend());
  return false;
}

void SimChannel::withdraw() { peer().withdrawn = true; }

Ticket SimChannel::publish(Slot content) {
  link_->postSlot(side_, *sender_.claim(), std::move(content));
  return sender_.publish();
}

Result<const std::byte*> SimChannel::peek(const Expect& expect) {
  TUTTI_TRY(failed());
  const std::optional<uint32_t> at = receiver_.arrived();
  if (!at) {
    failure_ = self().closed;
    TUTTI_TRY(failure_);
    return static_cast<const std::byte*>(nullptr);
  }
  const Slot& slot = self().slots[*at];
  seen_ = slot.call;
  failure_ = checkExpected(peer().rank, expect, slot.bytes, slot.call);
  if (failure_.ok() && slot.direct != nullptr && self().withdrawn) {
    failure_ = remoteError("rank ", peer().rank, " has taken back what it offered");
  }
  TUTTI_TRY(failure_);
  peeked_ = true;
  static const std::byte nothing{};  // a message of no bytes has an address too: nullptr means "not arrived"
  if (slot.bytes == 0) return &nothing;
  return slot.direct != nullptr ? slot.direct : slot.payload.data();
}

void SimChannel::release() {
  if (!peeked_) return;
  peeked_ = false;
  receiver_.release();
}

Result<bool> SimChannel::receive(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const std::byte* message, peek(expect));
  if (message == nullptr) return false;
  if (expect.bytes > 0) std::memcpy(dst, message, expect.bytes);
  release();
  return true;
}

std::optional<Fingerprint> SimChannel::pending() const {
  const std::optional<uint32_t> at = SlotReceiver<Words>(receiver_).arrived();
  if (!at || peeked_) return std::nullopt;
  return self().slots[*at].call;
}

Status SimChannel::failed() {
  if (failure_.ok()) failure_ = self().broken;
  return failure_;
}

Status SimChannel::failedToSend() {
  TUTTI_TRY(failed());
  failure_ = self().closed;
  return failure_;
}

std::string SimChannel::check() const {
  if (!sender_.check()) return cat("rank ", self().rank, " to ", peer().rank, ": more posted than there are slots");
  if (!receiver_.check())
    return cat("rank ", self().rank, " from ", peer().rank, ": more arrived than there are slots");
  return {};
}

}  // namespace tutti::sim
