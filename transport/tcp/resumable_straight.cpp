// Receiving straight to where bytes are wanted: the part of ResumableStream that spares a copy, and a system call.
#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/crc32c.hpp"
#include "transport/tcp/resumable_stream.hpp"

namespace tutti::tcp {
namespace {

// What is read behind a record, or where one has yet to say its size: its head, a message's head, the next record's.
constexpr size_t kHeadsBytes = 3 * kSealedHeadBytes;
// Behind records of messages up to 16 KiB, others like them are read in the same call: a copy costs less than a call.
constexpr size_t kMostReadOnBytes = (16 << 10) + 64;

/// Up to `most` bytes behind the first `skip` of `from` move to `to`, unless they are there; how many there is room
/// for.
size_t moveBytes(std::span<const iovec> from, size_t skip, size_t most, std::span<const iovec> to) {
  size_t moved = 0, part = 0, at = 0;
  for (const iovec& source : from) {
    size_t done = std::min(skip, source.iov_len);
    skip -= done;
    while (done < source.iov_len && moved < most && part < to.size()) {
      const size_t n = std::min({source.iov_len - done, to[part].iov_len - at, most - moved});
      auto* const there = static_cast<std::byte*>(to[part].iov_base) + at;
      const auto* const here = static_cast<const std::byte*>(source.iov_base) + done;
      if (n > 0 && there != here) std::memmove(there, here, n);
      done += n;
      moved += n;
      at += n;
      if (at == to[part].iov_len) ++part, at = 0;
    }
  }
  return moved;
}

}  // namespace

size_t ResumableStream::aim(std::span<const iovec> parts, std::span<iovec> to) {
  guess_.active = false;
  if (straight_.active && !parts.empty() && !goesTo(parts) && !moveStraight(parts)) endStraight();
  size_t n = 0;
  if (straight_.active || (!parts.empty() && beginStraight(parts))) {
    size_t skip = straight_.got;
    for (const iovec& part : straight_.to) {
      const size_t from = std::min(skip, part.iov_len);
      skip -= from;
      if (from < part.iov_len) to[n++] = {static_cast<std::byte*>(part.iov_base) + from, part.iov_len - from};
    }
  } else if (beginGuess(parts)) {
    to[n++] = {guess_.head.data(), headBytes_};
    for (const iovec& part : guess_.to) {
      if (part.iov_len > 0) to[n++] = part;
    }
  }
  std::span<std::byte> behind = roomBehind();
  const bool headLacks = end_ - parsed_ < headBytes_;
  // A guess that was wrong is put back before it.
  if (guess_.active) behind = behind.first(behind.size() - std::min(behind.size(), headBytes_ + guess_.bytes));
  const bool readsOn = guess_.active && guess_.bytes <= kMostReadOnBytes;
  if (!readsOn && (n > 0 || (!parts.empty() && headLacks))) behind = behind.first(std::min(behind.size(), kHeadsBytes));
  if (!behind.empty()) to[n++] = {behind.data(), behind.size()};
  return n;
}

/// Whether a record that is on its way straight goes to these places, and they still have room for it.
bool ResumableStream::goesTo(std::span<const iovec> parts) const {
  for (size_t i = 0; i < straight_.to.size() && straight_.to[i].iov_len > 0; ++i) {
    if (i == parts.size() || parts[i].iov_base != straight_.to[i].iov_base) return false;
    if (parts[i].iov_len < straight_.to[i].iov_len) return false;
  }
  return true;
}

/// If the next record's bytes are known to fit into `parts`, they go there from now on.
bool ResumableStream::beginStraight(std::span<const iovec> parts) {
  if (begin_ != parsed_ || left_ > 0 || landed_ > 0 || end_ - parsed_ < headBytes_ || firstRecord_) return false;
  const std::byte* at = in_.get() + parsed_;
  const Parsed record = *parseHead(at);  // parseOne() has judged it
  if (record.kind != Kind::Data || record.bytes < kLeastLargeBytes || !straightTo(parts, at, record)) return false;
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

/// A record goes to `parts` from its first byte on.  False: it does not fit.
bool ResumableStream::straightTo(std::span<const iovec> parts, const std::byte* head, const Parsed& record) {
  Straight next{.active = true, .bytes = record.bytes, .wanted = record.payloadCrc};
  std::memcpy(next.head.data(), head, headBytes_);
  size_t left = record.bytes, n = 0;
  for (const iovec& part : parts) {
    if (left == 0 || n == next.to.size()) break;
    next.to[n++] = {part.iov_base, std::min(left, part.iov_len)};
    left -= next.to[n - 1].iov_len;
  }
  if (left > 0) return false;
  straight_ = next;
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
  if (received_ - consumed_ > window_)
    return remoteError(ErrorCode::Malformed, "it has sent more than there is room for");
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

/// What has come of a record on its way straight moves to `parts`, where the rest is to come.  False: it does not fit.
bool ResumableStream::moveStraight(std::span<const iovec> parts) {
  const Straight before = straight_;
  if (!straightTo(parts, before.head.data(), *parseHead(before.head.data()))) return false;
  straight_.got = before.got;
  straight_.crc = before.crc;
  (void)moveBytes(before.to, 0, before.got, straight_.to);
  return true;
}

/// What has come straight to `parts` is there; what went to other memory is copied.
size_t ResumableStream::takeLanded(std::span<const iovec> parts) {
  const size_t taken = moveBytes(straight_.to, straight_.bytes - landed_, landed_, parts);
  landed_ -= taken;
  return taken;
}

// ---- The end of a loan

void ResumableStream::recall() {
  guess_.active = false;
  if (straight_.active) endStraight();
  if (landed_ == 0) return;
  makeRoom(landed_);
  TUTTI_ASSERT_CMP(capacity_ - end_, >=, landed_);
  std::byte* const at = in_.get() + begin_;
  std::memmove(at + landed_, at, end_ - begin_);
  const iovec here{at, landed_};
  (void)moveBytes(straight_.to, straight_.bytes - landed_, landed_, std::span(&here, 1));
  parsed_ += landed_;
  end_ += landed_;
  left_ = std::exchange(landed_, 0);
}

void ResumableStream::abandon() noexcept {
  guess_.active = straight_.active = false;
  landed_ = 0;
  spoiled_ = true;
}

// ---- A record's head, and its bytes straight to their places, in one read: right if the next record is what its
// reader expects, which it nearly always is.

/// Where nothing has come of the next record, and as much is wanted as a large one has.
bool ResumableStream::beginGuess(std::span<const iovec> parts) {
  if (begin_ != end_ || left_ > 0 || landed_ > 0 || firstRecord_) return false;
  Guess next{.active = true};
  size_t n = 0;
  for (const iovec& part : parts) {
    if (n == next.to.size()) break;
    next.to[n] = {part.iov_base, std::min(part.iov_len, kMostRecordBytes - next.bytes)};
    next.bytes += next.to[n++].iov_len;
  }
  if (next.bytes < kLeastLargeBytes) return false;
  guess_ = next;
  return true;
}

/// A head has come, or a part of it, then bytes in the places of the guess, and the rest in in_, which was empty.
Status ResumableStream::cameGuessed(size_t bytes) {
  const size_t ofHead = std::min(bytes, headBytes_), placed = std::min(bytes - ofHead, guess_.bytes);
  end_ = bytes - ofHead - placed;
  if (ofHead == headBytes_) {
    TUTTI_ASSIGN(const Parsed record, parseHead(guess_.head.data()));
    const bool next = record.kind == Kind::Data && record.position == received_;
    if (next && straightTo(guess_.to, guess_.head.data(), record)) {
      const size_t ofRecord = std::min<size_t>(placed, record.bytes);
      putBack(ofRecord, placed - ofRecord, 0);
      return cameStraight(ofRecord);
    }
  }
  putBack(0, placed, ofHead);
  std::memcpy(in_.get(), guess_.head.data(), ofHead);
  return {};
}

/// Bytes that are in the places of the guess by mistake go before those that are in in_, behind `at` others to come.
void ResumableStream::putBack(size_t from, size_t bytes, size_t at) {
  if (at + bytes == 0) return;
  makeRoom(at + bytes);
  std::memmove(in_.get() + at + bytes, in_.get(), end_);
  end_ += at + bytes;
  for (const iovec& part : guess_.to) {
    const size_t skipped = std::min(from, part.iov_len), some = std::min(bytes, part.iov_len - skipped);
    if (some > 0) std::memcpy(in_.get() + at, static_cast<const std::byte*>(part.iov_base) + skipped, some);
    from -= skipped;
    bytes -= some;
    at += some;
  }
}

}  // namespace tutti::tcp
