// Receiving straight to where bytes are wanted: the part of ResumableStream that spares a copy.
#include <algorithm>
#include <cstring>

#include "src/base/crc32c.hpp"
#include "transport/tcp/resumable_stream.hpp"

namespace tutti::tcp {
namespace {

// What is read behind a record, or where one has yet to say its size: its head, a message's head, the next record's.
constexpr size_t kHeadsBytes = 3 * kSealedHeadBytes;

}  // namespace

size_t ResumableStream::aim(std::span<const iovec> parts, std::span<iovec> to) {
  if (straight_.active && !parts.empty() && !goesTo(parts)) endStraight();
  size_t n = 0;
  if (straight_.active || (!parts.empty() && beginStraight(parts))) {
    size_t skip = straight_.got;
    for (const iovec& part : straight_.to) {
      const size_t from = std::min(skip, part.iov_len);
      skip -= from;
      if (from < part.iov_len) to[n++] = {static_cast<std::byte*>(part.iov_base) + from, part.iov_len - from};
    }
  }
  std::span<std::byte> behind = room();
  const bool headLacks = end_ - parsed_ < headBytes_;
  if (n > 0 || (!parts.empty() && headLacks)) behind = behind.first(std::min(behind.size(), kHeadsBytes));
  if (!behind.empty()) to[n++] = {behind.data(), behind.size()};
  return n;
}

/// Whether the record that is coming to its places would go to the same ones.
bool ResumableStream::goesTo(std::span<const iovec> parts) const {
  for (size_t i = 0; i < straight_.to.size() && straight_.to[i].iov_len > 0; ++i) {
    if (i == parts.size() || parts[i].iov_base != straight_.to[i].iov_base) return false;
    if (parts[i].iov_len < straight_.to[i].iov_len) return false;
  }
  return true;
}

void ResumableStream::abandon() noexcept {
  straight_.active = false;
  landed_ = 0;
  spoiled_ = true;
}

/// If the next record's bytes are known to fit into `parts`, they go there from now on.
bool ResumableStream::beginStraight(std::span<const iovec> parts) {
  if (begin_ != parsed_ || left_ > 0 || landed_ > 0 || end_ - parsed_ < headBytes_ || firstRecord_) return false;
  const std::byte* at = in_.get() + parsed_;
  const Parsed record = *parseHead(at);  // parseOne() has judged it
  if (record.kind != Kind::Data || record.bytes < kLeastAloneBytes) return false;
  Straight next{.active = true, .bytes = record.bytes, .wanted = record.payloadCrc};
  std::memcpy(next.head.data(), at, headBytes_);
  size_t left = record.bytes, n = 0;
  for (const iovec& part : parts) {
    if (left == 0 || n == next.to.size()) break;
    next.to[n++] = {part.iov_base, std::min(left, part.iov_len)};
    left -= next.to[n - 1].iov_len;
  }
  if (left > 0) return false;
  straight_ = next;
  size_t come = end_ - parsed_ - headBytes_;
  const std::byte* from = at + headBytes_;
  for (const iovec& part : straight_.to) {
    const size_t some = std::min(come, part.iov_len);
    if (some == 0) break;
    if (seal_ == nullptr) {
      straight_.crc = crc32cCopy(part.iov_base, from, some, straight_.crc);
    } else {
      std::memcpy(part.iov_base, from, some);
    }
    straight_.got += static_cast<uint32_t>(some);
    from += some;
    come -= some;
  }
  begin_ = parsed_ = end_ = 0;
  return true;
}

/// So many bytes of the record have come to their places; in_ has what is behind them.
Status ResumableStream::cameStraight(size_t bytes) {
  size_t skip = straight_.got;
  straight_.got += static_cast<uint32_t>(bytes);
  for (const iovec& part : straight_.to) {
    if (seal_ != nullptr) break;  // which takes the whole record at once, while it is in the cache
    const size_t from = std::min(skip, part.iov_len), some = std::min(bytes, part.iov_len - from);
    straight_.crc = crc32c(static_cast<const std::byte*>(part.iov_base) + from, some, straight_.crc);
    skip -= from;
    bytes -= some;
  }
  if (straight_.got < straight_.bytes) return {};
  straight_.active = false;
  const Parsed record = *parseHead(straight_.head.data());
  if (!straightIntact(record)) return damaged(record.bytes, record.position);
  received_ += record.bytes;
  landed_ = record.bytes;
  return acknowledge(record.consumed);
}

bool ResumableStream::straightIntact(const Parsed& record) {
  if (seal_ == nullptr) return straight_.crc == straight_.wanted;
  seal_->beginOpen(record.position, record.consumed);
  for (const iovec& part : straight_.to) seal_->open(static_cast<std::byte*>(part.iov_base), part.iov_len);
  return seal_->endOpen(tagOf(straight_.head.data()));
}

/// What has come of the record is read as any other.
void ResumableStream::endStraight() {
  straight_.active = false;
  makeRoom(headBytes_ + straight_.bytes);
  std::memcpy(in_.get(), straight_.head.data(), headBytes_);
  end_ = headBytes_;
  size_t left = straight_.got;
  for (const iovec& part : straight_.to) {
    const size_t some = std::min(left, part.iov_len);
    if (some > 0) std::memcpy(in_.get() + end_, part.iov_base, some);
    end_ += some;
    left -= some;
  }
}

/// What has come straight to `parts` is there; what went to other memory is copied.
size_t ResumableStream::takeLanded(std::span<const iovec> parts) {
  size_t taken = 0, part = 0, at = 0;
  size_t skip = straight_.bytes - landed_;
  for (const iovec& from : straight_.to) {
    size_t done = std::min(skip, from.iov_len);
    skip -= done;
    while (done < from.iov_len && part < parts.size()) {
      const size_t n = std::min(from.iov_len - done, parts[part].iov_len - at);
      auto* to = static_cast<std::byte*>(parts[part].iov_base) + at;
      const auto* source = static_cast<const std::byte*>(from.iov_base) + done;
      if (n > 0 && to != source) std::memmove(to, source, n);
      done += n;
      taken += n;
      at += n;
      if (at == parts[part].iov_len) ++part, at = 0;
    }
  }
  landed_ -= taken;
  return taken;
}

}  // namespace tutti::tcp
