#include "tests/support/sim/link.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/assert.hpp"
#include "transport/mismatch.hpp"

namespace tutti::sim {

// The sender's port takes the bytes one after another, and the first of them is at the receiver one delay later.
void Link::post(int side, Flow flow, size_t bytes, std::function<void(End&)> store) {
  if (down) return;
  int64_t startNs = world.nowNs();
  if (bytes > 0) {
    int64_t& freeNs = wires->sendFreeNs[static_cast<size_t>(ends[side].rank)];
    startNs = std::max(startNs, freeNs);
    freeNs = startNs + wires->portNs(bytes);
  }
  int64_t& headNs = times(side, flow).headNs;
  headNs = std::max(headNs, startNs + world.someDelayNs());
  world.post(ends[side].node, ends[1 - side].node, headNs,
             [self = shared_from_this(), side, flow, bytes, store = std::move(store)]() mutable {
               self->headArrived(side, flow, bytes, std::move(store));
             });
}

// The receiver's port takes the bytes as they come, or when it is done with what came before.
void Link::headArrived(int side, Flow flow, size_t bytes, std::function<void(End&)> store) {
  Times& t = times(side, flow);
  int64_t& wholeNs = t.wholeNs;
  wholeNs = std::max(wholeNs, world.nowNs());
  if (const int64_t portNs = wires->portNs(bytes); portNs > 0) {
    int64_t& freeNs = wires->receiveFreeNs[static_cast<size_t>(ends[1 - side].rank)];
    freeNs = std::max(freeNs, world.nowNs()) + portNs;
    wholeNs = std::max(wholeNs, freeNs);
  }
  ++t.coming;
  if (t.coming == 1 && wholeNs == world.nowNs()) return deliver(side, flow, store);
  world.post(ends[side].node, ends[1 - side].node, wholeNs,
             [self = shared_from_this(), side, flow, store = std::move(store)] { self->deliver(side, flow, store); });
}

void Link::deliver(int side, Flow flow, const std::function<void(End&)>& store) {
  --times(side, flow).coming;
  if (down) return;
  store(ends[1 - side]);
  wires->changed(ends[1 - side].rank);
}

// The payload first, then (by the sender's counter) the news of it, as on a machine that keeps stores in order.
void Link::postSlot(int side, uint32_t slot, Slot content) {
  const bool breaks = options.breaksPerMillion > 0 && world.random() % 1'000'000 < options.breaksPerMillion;
  if (breaks) return breakDown("was lost");
  const size_t bytes = content.bytes;
  post(side, Flow::Data, bytes,
       [slot, content = std::move(content)](End& end) mutable { end.slots[slot] = std::move(content); });
}

void Link::close(int side) {
  const Status status = remoteError("rank ", ends[side].rank, " has closed its sim endpoint (lane ", lane, ")");
  // Behind all that was sent and released before.
  times(side, Flow::Data).headNs = std::max(times(side, Flow::Data).headNs, times(side, Flow::Credit).headNs);
  post(side, Flow::Data, 0, [status](End& end) { end.closed = status; });
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
    self->wires->changed(self->ends[side].rank);
  });
}

SimEndpoint::SimEndpoint(std::shared_ptr<Link> link, int side)
    : link_(std::move(link)),
      side_(side),
      sender_(Words(link_.get(), side), link_->options.slots),
      receiver_(Words(link_.get(), side), link_->options.slots) {}

SimEndpoint::~SimEndpoint() {
  SimEndpoint::cancel();
  link_->close(side_);
}

Result<bool> SimEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_ASSERT_CMP(bytes, <=, slotBytes());
  TUTTI_TRY(failedToSend());
  if (!sender_.claim()) return false;
  publish({bytes, call, nullptr, std::vector<std::byte>(data, data + bytes)});
  return true;
}

Result<std::span<std::byte>> SimEndpoint::reserve() {
  TUTTI_TRY(failedToSend());
  if (!sender_.claim()) return std::span<std::byte>{};
  staging_.resize(slotBytes());
  return std::span<std::byte>(staging_);
}

Result<bool> SimEndpoint::commit(size_t bytes, const Fingerprint& call) { return send(staging_.data(), bytes, call); }

bool SimEndpoint::canOffer(const std::byte* /*data*/, size_t bytes) const { return bytes <= maxDirectBytes(); }

Result<Request> SimEndpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_TRY(failedToSend());
  if (sendsWait() || !canOffer(data, bytes)) return Endpoint::postSend(data, bytes, call);
  if (!sender_.claim()) return Request{0};
  // A null pointer is how a slot says that its payload is its own; nothing is read of an empty offer.
  return publish({bytes, call, bytes == 0 ? nullptr : data, {}});
}

Result<bool> SimEndpoint::test(Request request) {
  if (request >= kSendInLine) return Endpoint::test(request);
  if (sender_.isReleased(request)) return true;
  TUTTI_TRY(failedToSend());
  return false;
}

void SimEndpoint::cancel() {
  Endpoint::cancel();
  peer().withdrawn = true;
}

Request SimEndpoint::publish(Slot content) {
  link_->postSlot(side_, *sender_.claim(), std::move(content));
  return sender_.publish();
}

Result<const std::byte*> SimEndpoint::peek(const Expect& expect) {
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

void SimEndpoint::release() {
  if (!peeked_) return;
  peeked_ = false;
  receiver_.release();
}

Result<bool> SimEndpoint::receive(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const std::byte* message, peek(expect));
  if (message == nullptr) return false;
  if (expect.bytes > 0) std::memcpy(dst, message, expect.bytes);
  release();
  return true;
}

std::optional<Fingerprint> SimEndpoint::pending() const {
  const std::optional<uint32_t> at = SlotReceiver(receiver_).arrived();
  if (!at || peeked_) return std::nullopt;
  return self().slots[*at].call;
}

Status SimEndpoint::failed() {
  if (failure_.ok()) failure_ = self().broken;
  return failure_;
}

Status SimEndpoint::failedToSend() {
  TUTTI_TRY(failed());
  failure_ = self().closed;
  return failure_;
}

std::string SimEndpoint::check() const {
  if (!sender_.check()) return cat("rank ", self().rank, " to ", peer().rank, ": more posted than there are slots");
  if (!receiver_.check())
    return cat("rank ", self().rank, " from ", peer().rank, ": more arrived than there are slots");
  return {};
}

}  // namespace tutti::sim
