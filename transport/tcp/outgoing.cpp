#include "transport/tcp/outgoing.hpp"

#include <cstring>

#include "src/base/assert.hpp"

namespace tutti::tcp {

Outgoing::Outgoing(Sockets& sockets, size_t slotBytes, const EmptyLooks& looks)
    : sockets_(sockets), slotBytes_(slotBytes), staging_(new std::byte[slotBytes]), looks_(looks) {}

Result<bool> Outgoing::send(const std::byte* data, const Header& header) {
  if (!active_) {
    TUTTI_ASSERT_CMP(header.bytes, <=, slotBytes_);
    if (!posted_.empty()) TUTTI_TRY(asStatus(push()));
    if (!posted_.empty()) return false;
    active_ = true;
    data_ = data;
    headerSent_ = 0;
    stripes_ = Stripes(header.bytes, sockets_.spread());
    ofRow_ = inRow();
    const HeaderBytes head = encodeHeader({header.bytes, header.call, sockets_.spread(), ofRow_});
    std::memcpy(packet_.get(), head.data(), head.size());
    sent_.fill(0);
    if (packed() && header.bytes > 0) std::memcpy(packet_.get() + kHeaderBytes, data, header.bytes);
  }
  TUTTI_ASSERT_CMP(data, ==, data_);
  TUTTI_ASSERT_CMP(header.bytes, ==, stripes_.bytes);
  TUTTI_TRY(asStatus(pushActive()));
  if (!whole()) return false;
  active_ = false;
  if (ofRow_ && !gathers_) sockets_.gather(gathers_ = true);
  return true;
}

// The first message of a row still leaves when it is written, so that the receiver knows of the row before anything
// waits for its acknowledgement; whatever ends a row sends what was held back.
bool Outgoing::inRow() {
  if (!sockets_.local()) return false;
  const bool row = row_.next(packed(), sockets_.heardOf(), looks_.load(std::memory_order_relaxed));
  if (!row && gathers_) sockets_.gather(gathers_ = false);
  return row;
}

std::span<std::byte> Outgoing::staging() {
  if (busy()) return {};
  return {staging_.get(), slotBytes_};
}

// A lone small message leaves as one that is sent, in one piece of memory.  Posted ones are no row.
Result<uint64_t> Outgoing::post(const std::byte* data, const Header& header) {
  TUTTI_ASSERT_CMP(header.bytes, <=, slotBytes_);
  const bool alone = posted_.empty() && !active_;
  const bool small = header.bytes <= kMostPackedBytes;
  if (alone && small) {
    TUTTI_ASSIGN(const bool gone, send(data, header));
    if (gone) return ++done_;
  }
  if (gathers_) sockets_.gather(gathers_ = false);
  Posted next{.head = encodeHeader({header.bytes, header.call, sockets_.spread(), false}),
              .data = data,
              .stripes = Stripes(header.bytes, sockets_.spread())};
  if (alone && small) {  // it goes on from here
    active_ = false;
    std::memcpy(next.head.data(), packet_.get(), kHeaderBytes);
    next.sent[0] = headerSent_ + sent_[0];
  }
  posted_.push_back(next);
  if (alone) TUTTI_TRY(asStatus(push()));
  return done_ + posted_.size();
}

void Outgoing::cancel() {
  posted_.clear();
  active_ = false;
}

bool Outgoing::Posted::whole() const {
  for (int i = 0; i < stripes.count; ++i) {
    if (sent[static_cast<size_t>(i)] < bytesOn(i)) return false;
  }
  return true;
}

Result<bool> Outgoing::push() {
  bool moved = false;
  if (active_) {
    TUTTI_ASSIGN(moved, pushActive());
    if (!whole()) return moved;
  }
  for (int i = 0; i < sockets_.count() && !posted_.empty(); ++i) {
    TUTTI_ASSIGN(const size_t wrote, pushPosted(i));
    moved = moved || wrote > 0;
  }
  for (; !posted_.empty() && posted_.front().whole(); posted_.pop_front()) ++done_;
  return moved;
}

/// Writes to one socket as many posted messages as one system call takes.
Result<size_t> Outgoing::pushPosted(int socket) {
  constexpr size_t kMostParts = 32;
  constexpr size_t kMostBytes = size_t{4} << 20;  // more does not fit any socket buffer
  std::array<iovec, kMostParts> parts;
  size_t n = 0, bytes = 0;
  const auto i = static_cast<size_t>(socket);
  const auto add = [&](const std::byte* from, size_t size) {
    if (size == 0) return;
    parts[n++] = {const_cast<std::byte*>(from), size};  // sendmsg only reads
    bytes += size;
  };
  for (const Posted& message : posted_) {
    if (n + 2 > kMostParts || bytes >= kMostBytes) break;
    const size_t all = message.bytesOn(socket);
    if (message.sent[i] >= all) continue;
    const size_t ofHead = socket == 0 ? kHeaderBytes - std::min(message.sent[i], kHeaderBytes) : 0;
    const size_t ofBody = all - message.sent[i] - ofHead;
    add(message.head.data() + (kHeaderBytes - ofHead), ofHead);
    const Stripe stripe = message.stripes[socket];
    if (ofBody > 0) add(message.data + stripe.offset + (stripe.bytes - ofBody), ofBody);
  }
  if (n == 0) return size_t{0};
  TUTTI_ASSIGN(const size_t wrote, sockets_.write(socket, std::span(parts).first(n)));
  size_t left = wrote;
  for (Posted& message : posted_) {
    if (left == 0) break;
    const size_t taken = std::min(left, message.bytesOn(socket) - message.sent[i]);
    message.sent[i] += taken;
    left -= taken;
  }
  return wrote;
}

Result<bool> Outgoing::pushActive() {
  bool moved = false;
  for (int i = 0; i < stripes_.count; ++i) {
    TUTTI_ASSIGN(const size_t wrote, pushStripe(i));
    const size_t ofHeader = i == 0 ? std::min(wrote, kHeaderBytes - headerSent_) : 0;
    headerSent_ += ofHeader;
    sent_[static_cast<size_t>(i)] += wrote - ofHeader;
    moved = moved || wrote > 0;
  }
  return moved;
}

// Writes the rest of stripe i in one system call; the first stripe has the header in front.
Result<size_t> Outgoing::pushStripe(int i) {
  const size_t sent = sent_[static_cast<size_t>(i)];
  const Stripe stripe = stripes_[i];
  const size_t headerLeft = i == 0 ? kHeaderBytes - headerSent_ : 0;
  const size_t bodyLeft = stripe.bytes - sent;
  if (headerLeft + bodyLeft == 0) return size_t{0};
  const std::byte* head = packet_.get() + headerSent_;
  if (packed()) return sockets_.write(i, std::span(head + sent, headerLeft + bodyLeft));
  const std::byte* body = data_ + stripe.offset + sent;
  if (headerLeft == 0) return sockets_.write(i, std::span(body, bodyLeft));
  // iovec wants a pointer to non-const; sendmsg only reads.
  iovec parts[2] = {{const_cast<std::byte*>(head), headerLeft}, {const_cast<std::byte*>(body), bodyLeft}};
  return sockets_.write(i, std::span(parts));
}

bool Outgoing::whole() const {
  if (headerSent_ < kHeaderBytes) return false;
  for (int i = 0; i < stripes_.count; ++i) {
    if (sent_[static_cast<size_t>(i)] < stripes_[i].bytes) return false;
  }
  return true;
}

}  // namespace tutti::tcp
