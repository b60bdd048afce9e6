#include "transport/cuda/stream_channel.hpp"

#include <cstring>

namespace tutti::cuda {

Fingerprint controlFingerprint() { return makeFingerprint({.kind = kKindControl}); }

Result<std::unique_ptr<StreamChannel>> StreamChannel::create(const StreamOps& ops, const HostPair& hosts,
                                                             const InboxLayout& layout, const InboxWords& words,
                                                             uint64_t processId) {
  std::unique_ptr<StreamChannel> channel(new StreamChannel(ops, hosts, layout));
  TUTTI_ASSIGN(channel->inbox_, makeInbox(ops.device(), layout, words));
  channel->card_ = cardOf(*channel->inbox_, processId, *ops.device());
  // Now, and not at first use: a peer may need it while this rank still waits for a third.
  TUTTI_TRY(channel->tell());
  return channel;
}

Status StreamChannel::tell() {
  if (told_) return {};
  TUTTI_ASSIGN(told_,
               hosts_.tokens->send(reinterpret_cast<const std::byte*>(&card_), sizeof card_, controlFingerprint()));
  return {};
}

// The ends come in any order, and neither may wait here for the other, who may wait for a third.
Result<bool> StreamChannel::meet() {
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

Status StreamChannel::sendCredits() {
  while (owed_ > 0) {
    TUTTI_ASSIGN(const bool gone, hosts_.credits->send(nullptr, 0, controlFingerprint()));
    if (!gone) return {};
    --owed_;
  }
  return {};
}

// ---- Sending.

Result<bool> StreamChannel::hasRoom() {
  while (sent_ - credits_ >= layout_.slots) {
    TUTTI_ASSIGN(const bool came, hosts_.credits->receive(nullptr, {0, controlFingerprint()}));
    if (!came) return false;
    ++credits_;
  }
  return true;
}

Status StreamChannel::beginSlot() {
  const Address busy = ownWord(layout_.busyOffset(sendSlot()));
  TUTTI_TRY(ops_.waitFor(busy, 0));
  return ops_.write(busy, 1);
}

/// Also while the message is written already: a host channel may want to be asked again.
Result<bool> StreamChannel::tellSent(const Fingerprint& call) {
  if (!written_) {
    TUTTI_TRY(ops_.write(peersWord(layout_.fullOffset(sendSlot())), 1));
    written_ = true;
  }
  TUTTI_ASSIGN(const bool told, hosts_.tokens->send(nullptr, 0, call));
  if (!told) return false;
  written_ = reserved_ = false;
  ++sent_;
  return true;
}

Result<bool> StreamChannel::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!written_) {
    TUTTI_ASSIGN(const std::span<std::byte> room, reserve());
    if (room.empty()) return false;
    TUTTI_TRY(ops_.copy(room.data(), data, bytes));
  }
  return tellSent(call);
}

Result<std::span<std::byte>> StreamChannel::reserve() {
  TUTTI_ASSIGN(const bool met, meet());
  if (!met) return std::span<std::byte>();
  if (!reserved_) {
    TUTTI_ASSIGN(const bool room, hasRoom());
    if (!room) return std::span<std::byte>();
    TUTTI_TRY(beginSlot());
    reserved_ = true;
  }
  return std::span(reinterpret_cast<std::byte*>(peer_->slots() + layout_.slotOffset(sendSlot())), layout_.slotBytes);
}

Result<bool> StreamChannel::commit(size_t, const Fingerprint& call) { return tellSent(call); }

// ---- Receiving.

Result<bool> StreamChannel::arrive(const Expect& expect) {
  if (arrived_) return true;
  TUTTI_ASSIGN(const bool met, meet());
  if (!met) return false;
  const Result<bool> came = hosts_.tokens->receive(nullptr, {0, expect.call});
  if (!came.ok()) seen_ = hosts_.tokens->seen();
  if (!came.ok() || !*came) return came;
  const Address full = ownWord(layout_.fullOffset(receiveSlot()));
  TUTTI_TRY(ops_.waitFor(full, 1));
  TUTTI_TRY(ops_.write(full, 0));
  arrived_ = true;
  return true;
}

Result<const std::byte*> StreamChannel::peek(const Expect& expect) {
  TUTTI_ASSIGN(const bool here, arrive(expect));
  if (!here) return static_cast<const std::byte*>(nullptr);
  return reinterpret_cast<const std::byte*>(inbox_->slots.address() + layout_.slotOffset(receiveSlot()));
}

Status StreamChannel::releaseSlot() {
  TUTTI_TRY(ops_.write(peersWord(layout_.busyOffset(receiveSlot())), 0));
  arrived_ = false;
  ++received_;
  ++owed_;
  return sendCredits();
}

void StreamChannel::release() {
  if (!arrived_) return;
  if (Status status = releaseSlot(); !status.ok() && error_.ok()) error_ = std::move(status);
}

Result<bool> StreamChannel::receive(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const bool here, arrive(expect));
  if (!here) return false;
  TUTTI_TRY(ops_.copy(dst,
                      reinterpret_cast<const std::byte*>(inbox_->slots.address() + layout_.slotOffset(receiveSlot())),
                      expect.bytes));
  TUTTI_TRY(releaseSlot());
  return true;
}

Result<bool> StreamChannel::progress() {
  const uint64_t before = owed_;
  TUTTI_TRY(sendCredits());
  return owed_ != before;
}

Status StreamChannel::letGo(Stream rescue) const {
  const size_t words = layout_.slots * InboxLayout::kWordStride / 4;
  const Driver& driver = ops_.device()->driver();
  TUTTI_CUDA(driver, cuMemsetD32Async(ownWord(layout_.fullOffset(0)), 1, words, rescue));
  TUTTI_CUDA(driver, cuMemsetD32Async(ownWord(layout_.busyOffset(0)), 0, words, rescue));
  return {};
}

}  // namespace tutti::cuda
