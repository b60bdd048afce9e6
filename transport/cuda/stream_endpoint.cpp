#include "transport/cuda/stream_endpoint.hpp"

#include <cstring>

#include "transport/mismatch.hpp"

namespace tutti::cuda {

Fingerprint controlFingerprint() { return makeFingerprint({.kind = kKindControl}); }

Result<std::unique_ptr<StreamEndpoint>> StreamEndpoint::create(StreamOps& ops, const HostPair& hosts,
                                                               const Lending& lending, const InboxLayout& layout,
                                                               const InboxRoom& words, const InboxRoom& slots,
                                                               uint64_t processId) {
  std::unique_ptr<StreamEndpoint> endpoint(new StreamEndpoint(ops, hosts, lending, layout));
  TUTTI_ASSIGN(endpoint->inbox_, makeInbox(ops.device(), layout, words, slots));
  endpoint->card_ = cardOf(*endpoint->inbox_, processId, *ops.device());
  // Now, and not at first use: a peer may need it while this rank still waits for a third.
  TUTTI_TRY(endpoint->tell());
  return endpoint;
}

Result<bool> StreamEndpoint::remembered(Result<bool> ofHost) {
  if (!ofHost.ok() && error_.ok()) error_ = ofHost.status();
  return ofHost;
}

Status StreamEndpoint::tell() {
  if (told_) return {};
  TUTTI_ASSIGN(told_,
               hosts_.tokens->send(reinterpret_cast<const std::byte*>(&card_), sizeof card_, controlFingerprint()));
  return {};
}

// The ends come in any order, and neither may wait here for the other, who may wait for a third.
Result<bool> StreamEndpoint::meet() {
  if (!error_.ok()) return error_;
  TUTTI_TRY(tell());
  if (peer_ == nullptr && told_) {
    TUTTI_ASSIGN(const std::byte* message, hosts_.tokens->peek({sizeof card_, controlFingerprint()}));
    if (message == nullptr) return false;
    InboxCard theirs;
    std::memcpy(&theirs, message, sizeof theirs);
    hosts_.tokens->release();
    TUTTI_ASSIGN(peer_, PeerInbox::open(theirs, layout_, card_.processId, ops_.device()));
  }
  if (owed_ > 0) TUTTI_TRY(sendCredits());
  return peer_ != nullptr;
}

Status StreamEndpoint::sendCredits() {
  while (owed_ > 0) {
    TUTTI_ASSIGN(const bool gone, hosts_.credits->send(nullptr, 0, controlFingerprint()));
    if (!gone) return {};
    --owed_;
  }
  return {};
}

// ---- Sending.

/// Whether the release of the first `messages` has been enqueued.
Result<bool> StreamEndpoint::released(uint64_t messages) {
  while (credits_ < messages) {
    TUTTI_ASSIGN(const bool came, remembered(hosts_.credits->receive(nullptr, {0, controlFingerprint()})));
    if (!came) return false;
    ++credits_;
  }
  return true;
}

/// Whether message sent_ has its slot.
Result<bool> StreamEndpoint::takeSlot() {
  TUTTI_ASSIGN(const bool met, meet());
  if (!met || reserved_) return met;
  TUTTI_ASSIGN(const bool room, released(sent_ < layout_.slots ? 0 : sent_ - layout_.slots + 1));
  if (!room) return false;
  const Address busy = ownWord(layout_.busyOffset(sendSlot()));
  TUTTI_TRY(ops_.waitFor(busy, 0));
  TUTTI_TRY(ops_.write(busy, 1));
  reserved_ = true;
  return true;
}

/// Also while the message is written already: a host endpoint may want to be asked again.
Result<bool> StreamEndpoint::tellSent(size_t bytes, const Fingerprint& call) {
  if (!written_) {
    TUTTI_TRY(ops_.write(peersWord(layout_.fullOffset(sendSlot())), 1));
    TUTTI_TRY(ops_.flush());
    written_ = true;
  }
  place_.bytes = bytes;
  TUTTI_ASSIGN(const bool told,
               remembered(hosts_.tokens->send(reinterpret_cast<const std::byte*>(&place_), sizeof place_, call)));
  if (!told) return false;
  place_ = {};
  written_ = reserved_ = false;
  ++sent_;
  sentBytes_ += bytes;
  return true;
}

Result<bool> StreamEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!written_) {
    TUTTI_ASSIGN(const std::span<std::byte> room, reserve());
    if (room.empty()) return false;
    TUTTI_TRY(ops_.copy(room.data(), data, bytes));
  }
  return tellSent(bytes, call);
}

Result<std::span<std::byte>> StreamEndpoint::reserve() {
  TUTTI_ASSIGN(const bool mine, takeSlot());
  if (!mine) return std::span<std::byte>();
  return std::span(reinterpret_cast<std::byte*>(peer_->slots() + layout_.slotOffset(sendSlot())), layout_.slotBytes);
}

Result<bool> StreamEndpoint::commit(size_t bytes, const Fingerprint& call) { return tellSent(bytes, call); }

// ---- Lending.

std::optional<LentPlace> StreamEndpoint::placeToLend(const std::byte* data, size_t bytes) const {
  if (bytes >= leastWholeBytes()) return LentPlace{LentPlace::kHere, addressOf(data)};
  return lending_.exchange == nullptr ? std::nullopt : lending_.exchange->placeOf(data, bytes);
}

bool StreamEndpoint::offersMapped(const std::byte* data, size_t bytes) const {
  return placeToLend(data, bytes).has_value();
}

Result<Request> StreamEndpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!written_) {
    const std::optional<LentPlace> place = placeToLend(data, bytes);
    if (!place || sendsWait()) return Endpoint::postSend(data, bytes, call);
    TUTTI_ASSIGN(const bool mine, takeSlot());
    if (!mine) return Request{0};
    place_ = *place;
  }
  TUTTI_ASSIGN(const bool told, tellSent(bytes, call));
  if (!told) return Request{0};
  lent_.push_back(sent_ - 1);
  return Request{sent_};
}

// Where the message's slot has been taken again, this stream has waited for its release then, and a wait now would be
// for the later message's.
Result<bool> StreamEndpoint::test(Request request) {
  if (request >= kSendInLine) return Endpoint::test(request);
  TUTTI_ASSIGN(const bool free, released(request));
  if (!free) return false;
  const uint64_t begun = sent_ + (reserved_ ? 1 : 0);
  for (; !lent_.empty() && lent_.front() < request; lent_.pop_front()) {
    const uint64_t message = lent_.front();
    if (message + layout_.slots < begun) continue;
    TUTTI_TRY(ops_.waitFor(ownWord(layout_.busyOffset(static_cast<uint32_t>(message % layout_.slots))), 0));
  }
  return true;
}

// ---- Receiving.

std::optional<Fingerprint> StreamEndpoint::pending() const {
  const std::optional<Fingerprint> call = hosts_.tokens->pending();
  return call == controlFingerprint() ? std::nullopt : call;
}

Result<bool> StreamEndpoint::arrive(const Expect& expect) {
  if (arrived_) return true;
  TUTTI_ASSIGN(const bool met, meet());
  if (!met) return false;
  const Result<bool> came =
      remembered(hosts_.tokens->receive(reinterpret_cast<std::byte*>(&token_), {sizeof token_, expect.call}));
  if (!came.ok()) seen_ = hosts_.tokens->seen();
  if (!came.ok() || !*came) return came;
  if (Status same = checkExpected(lending_.peer, expect, token_.bytes, expect.call); !same.ok()) {
    seen_ = expect.call;
    return error_ = std::move(same);
  }
  lentHere_ = nullptr;
  if (token_.id != 0) {
    TUTTI_ASSIGN(lentHere_, lentAddress(expect.bytes));
  }
  const Address full = ownWord(layout_.fullOffset(receiveSlot()));
  TUTTI_TRY(ops_.waitFor(full, 1));
  TUTTI_TRY(ops_.write(full, 0));
  arrived_ = true;
  return true;
}

/// Where message received_ lies, which is in no slot.
Result<const std::byte*> StreamEndpoint::lentAddress(size_t bytes) const {
  if (token_.id != LentPlace::kHere) {
    return lending_.exchange->address(lending_.peer, lending_.peersProcess, token_, bytes, ops_.captured());
  }
  if (!lending_.here)
    return remoteError(ErrorCode::Malformed, "a peer says that a message lies in memory of this process");
  return reinterpret_cast<const std::byte*>(token_.offset);
}

const std::byte* StreamEndpoint::arrivedAt() const {
  if (lentHere_ != nullptr) return lentHere_;
  return reinterpret_cast<const std::byte*>(inbox_->slots.address() + layout_.slotOffset(receiveSlot()));
}

Result<const std::byte*> StreamEndpoint::peek(const Expect& expect) {
  TUTTI_ASSIGN(const bool here, arrive(expect));
  return here ? arrivedAt() : static_cast<const std::byte*>(nullptr);
}

Status StreamEndpoint::releaseSlot() {
  TUTTI_TRY(ops_.write(peersWord(layout_.busyOffset(receiveSlot())), 0));
  TUTTI_TRY(ops_.flush());
  arrived_ = false;
  ++received_;
  ++owed_;
  // A peer that has gone needs no credits, and what it sent before counts.
  if (Status told = sendCredits(); !told.ok() && error_.ok()) error_ = std::move(told);
  return {};
}

void StreamEndpoint::release() {
  if (!arrived_) return;
  if (Status status = releaseSlot(); !status.ok() && error_.ok()) error_ = std::move(status);
}

Result<bool> StreamEndpoint::receive(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const bool here, arrive(expect));
  if (!here) return false;
  TUTTI_TRY(ops_.copy(dst, arrivedAt(), expect.bytes));
  TUTTI_TRY(releaseSlot());
  return true;
}

void StreamEndpoint::closePeer() {
  peer_.reset();
  if (error_.ok()) error_ = invalidUsage(ErrorCode::Finalized, "the communicator has been finalized");
}

Status StreamEndpoint::letGo(Stream rescue) const {
  const size_t words = layout_.slots * InboxLayout::kWordStride / 4;
  const Driver& driver = ops_.device()->driver();
  TUTTI_CUDA(driver, cuMemsetD32Async(ownWord(layout_.fullOffset(0)), 1, words, rescue));
  TUTTI_CUDA(driver, cuMemsetD32Async(ownWord(layout_.busyOffset(0)), 0, words, rescue));
  return {};
}

}  // namespace tutti::cuda
