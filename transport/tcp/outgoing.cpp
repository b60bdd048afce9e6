#include "transport/tcp/outgoing.hpp"

#include "src/base/assert.hpp"

namespace tutti::tcp {

Outgoing::Outgoing(Sockets& sockets, size_t slotBytes)
    : sockets_(sockets), slotBytes_(slotBytes), staging_(new std::byte[slotBytes]) {}

Result<bool> Outgoing::send(const std::byte* data, const Header& header) {
  if (!active_) {
    TUTTI_ASSERT_CMP(header.bytes, <=, slotBytes_);
    active_ = true;
    data_ = data;
    header_ = encodeHeader({header.bytes, header.call, sockets_.spread()});
    headerSent_ = 0;
    stripes_ = Stripes(header.bytes, sockets_.spread());
    sent_.fill(0);
  }
  TUTTI_ASSERT_CMP(data, ==, data_);
  TUTTI_ASSERT_CMP(header.bytes, ==, stripes_.bytes);
  TUTTI_TRY(asStatus(push()));
  if (!whole()) return false;
  active_ = false;
  return true;
}

std::span<std::byte> Outgoing::staging() {
  if (active_) return {};
  return {staging_.get(), slotBytes_};
}

Result<bool> Outgoing::push() {
  if (!active_) return false;
  bool moved = false;
  for (int i = 0; i < stripes_.count; ++i) {
    const size_t at = static_cast<size_t>(i);
    const Stripe stripe = stripes_[i];
    const size_t headerLeft = i == 0 ? kHeaderBytes - headerSent_ : 0;
    const size_t bodyLeft = stripe.bytes - sent_[at];
    if (headerLeft + bodyLeft == 0) continue;
    // iovec wants a pointer to non-const; sendmsg only reads.
    iovec parts[2] = {{header_.data() + headerSent_, headerLeft},
                      {const_cast<std::byte*>(data_) + stripe.offset + sent_[at], bodyLeft}};
    const size_t skip = headerLeft == 0 ? 1 : 0;
    const size_t n = bodyLeft == 0 ? 1 : 2;
    TUTTI_ASSIGN(const size_t wrote, sockets_.write(i, std::span(parts + skip, n - skip)));
    const size_t ofHeader = std::min(wrote, headerLeft);
    headerSent_ += ofHeader;
    sent_[at] += wrote - ofHeader;
    moved = moved || wrote > 0;
  }
  return moved;
}

bool Outgoing::whole() const {
  if (headerSent_ < kHeaderBytes) return false;
  for (int i = 0; i < stripes_.count; ++i) {
    if (sent_[static_cast<size_t>(i)] < stripes_[i].bytes) return false;
  }
  return true;
}

}  // namespace tutti::tcp
