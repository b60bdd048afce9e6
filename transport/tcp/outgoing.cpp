#include "transport/tcp/outgoing.hpp"

#include <cstring>

#include "src/base/assert.hpp"

namespace tutti::tcp {

Outgoing::Outgoing(Sockets& sockets, size_t slotBytes, const EmptyLooks& looks)
    : sockets_(sockets), slotBytes_(slotBytes), staging_(new std::byte[slotBytes]), looks_(looks) {}

Result<bool> Outgoing::send(const std::byte* data, const Header& header) {
  if (!active_) {
    TUTTI_ASSERT_CMP(header.bytes, <=, slotBytes_);
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
  TUTTI_TRY(asStatus(push()));
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
  if (active_) return {};
  return {staging_.get(), slotBytes_};
}

Result<bool> Outgoing::push() {
  if (!active_) return false;
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

// What is left of stripe i, in one call; the first one's has the header in front.
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
