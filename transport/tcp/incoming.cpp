#include "transport/tcp/incoming.hpp"

#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/clock.hpp"
#include "transport/mismatch.hpp"

namespace tutti::tcp {
namespace {

// What some ten small messages of a row take to come.
constexpr int64_t kRestNs = 3000;
// A look that brings less of a large message came too soon.
constexpr size_t kLittle = 64 << 10;
constexpr int64_t kPieceRestNs = 2000;

}  // namespace

Incoming::Incoming(Sockets& sockets, size_t slotBytes)
    : sockets_(sockets),
      slotBytes_(slotBytes),
      staging_{std::unique_ptr<std::byte[]>(new std::byte[slotBytes]),
               std::unique_ptr<std::byte[]>(new std::byte[slotBytes])},
      target_(staging_[0].get()),
      spread_(static_cast<uint32_t>(sockets.count())) {}

Result<bool> Incoming::receive(std::byte* dst, const Expect& expect, Fingerprint* seen) {
  if (!posted_.empty()) TUTTI_TRY(asStatus(serve(seen)));
  return posted_.empty() ? take(dst, expect, seen) : Result<bool>(false);
}

Result<bool> Incoming::serve(Fingerprint* seen) {
  const uint64_t before = done_;
  while (!posted_.empty()) {
    TUTTI_ASSIGN(const bool came, take(posted_.front().dst, posted_.front().expect, seen));
    if (!came) break;
    posted_.pop_front();
    ++done_;
  }
  return done_ != before;
}

void Incoming::cancel() {
  posted_.clear();
  sockets_.abandon();
  if (asked_) retarget(spare(), false);
}

Result<bool> Incoming::take(std::byte* dst, const Expect& expect, Fingerprint* seen) {
  TUTTI_ASSERT_CMP(expect.bytes, <=, slotBytes_);
  polled_ = true;
  if (known_) TUTTI_TRY(check(&expect, seen));
  retarget(dst, true);
  TUTTI_TRY(asStatus(advance(&expect, seen)));
  if (!whole()) return false;
  reset();
  return true;
}

Result<const std::byte*> Incoming::peek(const Expect& expect, Fingerprint* seen) {
  TUTTI_ASSERT_CMP(expect.bytes, <=, slotBytes_);
  if (held_ >= 0) return staging_[held_].get();
  if (!posted_.empty()) TUTTI_TRY(asStatus(serve(seen)));
  if (!posted_.empty()) return static_cast<const std::byte*>(nullptr);
  polled_ = true;
  if (known_) TUTTI_TRY(check(&expect, seen));
  retarget(spare(), false);
  if (!whole()) TUTTI_TRY(asStatus(advance(&expect, seen)));
  if (!whole()) return static_cast<const std::byte*>(nullptr);
  held_ = target_ == staging_[0].get() ? 0 : 1;
  const std::byte* message = target_;
  reset();
  return message;
}

Result<bool> Incoming::drain(Fingerprint* seen) {
  const bool polled = std::exchange(polled_, false);
  if (!polled && !posted_.empty()) {
    Result<bool> served = serve(seen);
    polled_ = false;
    return served;
  }
  if (polled || asked_ || whole() || ended_) return false;
  const bool fits = !known_ || message_.bytes <= slotBytes_;
  if (!fits) return false;  // whoever asks for this message will be told
  Result<bool> moved = advance(nullptr, nullptr);
  const bool gone = !moved.ok() && moved.status().code() == tuttiRemoteError && untouched();
  if (!gone) return moved;
  ended_ = moved.status();
  return false;
}

void Incoming::hurry() {
  if (message_.row && sockets_.unacknowledged()) sockets_.acknowledge();
}

std::optional<Fingerprint> Incoming::pending() const {
  const uint64_t before = generation_.load(std::memory_order_acquire);  // partner: release in publish(), reset()
  Header header;
  if (before % 2 == 1) {
    header.call = {pendingHead_.load(std::memory_order_acquire), pendingCount_.load(std::memory_order_acquire)};
  } else if (sockets_.resumable()) {
    return std::nullopt;  // in the socket are records, and it may be another one by now
  } else {
    HeaderBytes bytes;
    const ssize_t n = ::recv(sockets_.fd(0), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    if (n != static_cast<ssize_t>(bytes.size()) || filling_.load(std::memory_order_acquire)) return std::nullopt;
    const Result<Header> decoded = decodeHeader(bytes, static_cast<uint32_t>(sockets_.count()));
    if (!decoded.ok()) return std::nullopt;  // the middle of a message
    header = *decoded;
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (generation_.load(std::memory_order_relaxed) != before) return std::nullopt;
  return header.call;
}

// What has come so far decides what is still to be read: on each socket that may have something of the message, the
// header (and with it, if we know what to expect, the body), then the rest of the piece.  No wait: the caller polls.
Result<bool> Incoming::advance(const Expect* expect, Fingerprint* seen) {
  if (ended_) return *ended_;
  if (whole()) return false;
  const int n = socketsOf(expect);
  if (n == 1) return advanceOn(0, expect, seen);
  // A socket that the peer has closed may have brought all that it had to bring.
  bool moved = false, open = false;
  std::optional<Status> closed;
  for (int i = 0; i < n && !whole(); ++i) {
    Result<bool> one = advanceOn(i, expect, seen);
    if (!one.ok() && !sockets_.closed(i)) return one;
    if (!one.ok()) closed = one.status();
    open = open || one.ok();
    moved = moved || (one.ok() && *one);
  }
  if (closed && !open && !whole()) return *closed;
  return moved;
}

/// How many sockets, from the first on, may have something of the message.
int Incoming::socketsOf(const Expect* expect) const {
  if (spread_ == 1) return 1;
  // The peer has sent something else before: the error is on another socket.
  if (!known_ && arriving_[0].hasHead() && arriving_[0].header.number != number_) return sockets_.count();
  const auto expected = [&] { return Pieces(expect->bytes, spread_, sockets_.severalPaths()).count; };
  const uint32_t pieces = known_ ? pieces_.count : expect == nullptr ? 2 : expected();
  return pieces == 1 ? 1 : sockets_.count();
}

Result<bool> Incoming::advanceOn(int socket, const Expect* expect, Fingerprint* seen) {
  Arriving& at = arriving_[static_cast<size_t>(socket)];
  bool moved = false;
  for (;;) {
    const bool hadHead = at.hasHead();
    if (!hadHead) {
      Result<bool> came = readHeader(socket, expect);
      if (!came.ok()) return moved && sockets_.closed(socket) ? Result<bool>(true) : came;
      moved = moved || *came;
      if (!at.hasHead()) return moved;
    }
    if (at.header.number != number_) {
      if (spread_ > 1) return moved;  // of a later message
      return remoteError(ErrorCode::Malformed, "tcp: rank ", sockets_.peer(), ": message ", at.header.number,
                         " came where ", number_, " was to come");
    }
    TUTTI_TRY(known_ ? notOfThis(at.header) : begin(at.header, expect, seen));
    if (message_.bytes > slotBytes_) return moved;
    const Piece piece = pieces_[at.header.piece];
    // Only now is it known that the target has room for as many.
    if (socket == 0 && at.got == 0) at.got = ahead_.take(target_ + piece.offset, piece.bytes);
    // What there was has come with the header.
    const bool looked = !hadHead && expect != nullptr && pieces_.count == 1;
    if (at.got < piece.bytes && looked) return moved;
    if (at.got < piece.bytes) {
      TUTTI_ASSIGN(const size_t n, readPiece(socket, piece));
      moved = moved || n > 0;
      if (at.got < piece.bytes) return moved;
    }
    TUTTI_TRY(pieceCame(socket, piece));
    if (lacks_ == 0) return moved;
  }
}

/// Small messages come through the buffer.  With the expectation of a large one in one piece, that is read in the same
/// call as the header.  If the message turns out to be another one, the bytes behind its header are garbage within the
/// expected size, and the endpoint has failed.
Result<bool> Incoming::readHeader(int socket, const Expect* expect) {
  Arriving& at = arriving_[static_cast<size_t>(socket)];
  const bool large = expect != nullptr && expect->bytes > kMostAheadBytes;
  if (socket == 0 && large && ahead_.size() == 0 && socketsOf(expect) == 1) return readBehindHeader(expect->bytes);
  size_t n = 1;
  if (socket > 0 || (large && ahead_.size() == 0)) {
    if (socket == 0) filling_.store(true, std::memory_order_release);
    TUTTI_ASSIGN(n, sockets_.read(socket, std::span(at.head).subspan(at.headGot)));
    at.headGot += n;
  } else {
    if (at.headGot + ahead_.size() < kHeaderBytes) {
      if (rests()) return false;
      // From here to the end of the message the socket may be messages ahead of it.  Partner: acquire in pending().
      filling_.store(true, std::memory_order_release);
      TUTTI_ASSIGN(n, ahead_.fill(sockets_, 0));
      if (n == 0) rest();
    }
    at.headGot += ahead_.take(at.head.data() + at.headGot, kHeaderBytes - at.headGot);
  }
  if (socket == 0 && at.headGot == 0 && ahead_.size() == 0) filling_.store(false, std::memory_order_release);
  if (!at.hasHead()) return n > 0;
  TUTTI_TRY(headerCame(socket));
  return true;
}

// Whoever sends a row runs ahead and waits for nothing, and a look that finds nothing holds the socket's lock, in the
// way of the next message.  One rest to a message, so that the end of a row costs no more than one.
void Incoming::rest() {
  if (message_.row && !std::exchange(rested_, true)) restUntilNs_ = nowNs() + kRestNs;
}

bool Incoming::rests() {
  if (restUntilNs_ == 0) return false;
  if (nowNs() < restUntilNs_) return true;
  restUntilNs_ = 0;
  return false;
}

Result<bool> Incoming::readBehindHeader(size_t bytes) {
  Arriving& at = arriving_[0];
  iovec parts[2] = {{at.head.data() + at.headGot, kHeaderBytes - at.headGot}, {target_, bytes}};
  TUTTI_ASSIGN(const size_t n, sockets_.read(0, std::span(parts)));
  const size_t ofHeader = std::min(n, kHeaderBytes - at.headGot);
  at.headGot += ofHeader;
  if (!at.hasHead()) return n > 0;
  TUTTI_TRY(headerCame(0));
  at.got = n - ofHeader;
  return true;
}

/// Behind a piece of a message that is spread there is always a header.
Result<size_t> Incoming::readPiece(int socket, const Piece& piece) {
  Arriving& at = arriving_[static_cast<size_t>(socket)];
  const std::span<std::byte> rest(target_ + piece.offset + at.got, piece.bytes - at.got);
  if (pieces_.count == 1 && rest.size() > kLittle && rests()) return 0;
  size_t n = 0;
  if (pieces_.count == 1) {
    TUTTI_ASSIGN(n, sockets_.read(socket, rest));
  } else {
    iovec parts[2] = {{rest.data(), rest.size()}, {at.next.data(), kHeaderBytes}};
    TUTTI_ASSIGN(n, sockets_.read(socket, std::span(parts)));
  }
  const size_t ofPiece = std::min(n, rest.size());
  at.got += ofPiece;
  at.nextGot = n - ofPiece;
  // A look that finds little holds the socket's lock, in the way of what is coming: 4 MiB over loopback in 0.85 to 0.93
  // of the time (perf/results/compare-tcp-untuned-2core-epyc.txt).
  if (pieces_.count == 1 && n < kLittle && rest.size() - ofPiece > kLittle) restUntilNs_ = nowNs() + kPieceRestNs;
  return n;
}

Status Incoming::headerCame(int socket) {
  Arriving& at = arriving_[static_cast<size_t>(socket)];
  const Result<Header> header = decodeHeader(at.head, spread_);  // which never grows: see there
  if (!header.ok())
    return remoteError(ErrorCode::Malformed, "tcp: rank ", sockets_.peer(), ": ", header.status().text());
  if (header->paths != sockets_.severalPaths()) {
    return remoteError(ErrorCode::Malformed, "tcp: rank ", sockets_.peer(),
                       " cuts messages for another number of interfaces");
  }
  at.header = *header;
  return {};
}

Status Incoming::pieceCame(int socket, const Piece& piece) {
  Arriving& at = arriving_[static_cast<size_t>(socket)];
  have_ |= uint64_t{1} << at.header.piece;
  lacks_ -= piece.bytes;
  at.got = 0;
  at.headGot = std::exchange(at.nextGot, 0);
  if (at.headGot > 0) at.head = at.next;
  return at.hasHead() ? headerCame(socket) : Status();
}

/// The first header of the message.
Status Incoming::begin(const Header& header, const Expect* expect, Fingerprint* seen) {
  known_ = true;
  message_ = header;
  restUntilNs_ = 0;
  rested_ = false;
  spread_ = header.spread;
  pieces_ = Pieces(header.bytes, spread_, header.paths);
  have_ = 0;
  lacks_ = header.bytes;
  sockets_.heard();
  if (sockets_.answered()) hurry();
  if (expect == nullptr) publish(header.call);
  return check(expect, seen);
}

/// Headers of one message are alike, and each piece comes once.
Status Incoming::notOfThis(const Header& header) const {
  const bool same = header.bytes == message_.bytes && header.call == message_.call && header.spread == message_.spread;
  if (same && (have_ >> header.piece & 1) == 0) return {};
  return remoteError(ErrorCode::Malformed, "tcp: rank ", sockets_.peer(), ": piece ", header.piece, " of a message of ",
                     message_.bytes, " bytes is of another one, or has come before");
}

// Lets pending() know of this call, until reset().
void Incoming::publish(const Fingerprint& call) {
  if (generation_.load(std::memory_order_relaxed) % 2 == 1) return;
  // Release: whoever sees these words sees that the message before them is gone (reset()).  Partner: pending().
  pendingHead_.store(call.head, std::memory_order_release);
  pendingCount_.store(call.count, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);  // partner: acquire in pending(); odd: the words are set
}

Status Incoming::check(const Expect* expect, Fingerprint* seen) const {
  if (expect == nullptr) return {};
  Status status = checkExpected(sockets_.peer(), *expect, message_.bytes, message_.call);
  if (!status.ok()) *seen = message_.call;
  return status;
}

// Sends the payload to dst from now on; the part that has come moves there.
void Incoming::retarget(std::byte* dst, bool asked) {
  asked_ = asked;
  if (target_ == dst) return;
  std::byte* const before = std::exchange(target_, dst);
  if (!known_) return;
  const auto move = [&](const Piece& piece, size_t bytes) {
    if (bytes > 0) std::memcpy(dst + piece.offset, before + piece.offset, bytes);
  };
  for (uint32_t i = 0; i < pieces_.count; ++i) {
    if ((have_ >> i & 1) != 0) move(pieces_[i], pieces_[i].bytes);
  }
  for (const Arriving& at : arriving()) {
    if (at.hasHead() && at.header.number == number_) move(pieces_[at.header.piece], at.got);
  }
}

void Incoming::reset() {
  asked_ = false;
  target_ = spare();
  known_ = false;
  pieces_ = {};
  have_ = 0;
  ++number_;
  // Before the generation says "look at the socket": as long as there is something in the buffer, the socket is
  // further.
  const bool further = ahead_.size() > 0 || arriving_[0].headGot > 0;
  if (further) filling_.store(true, std::memory_order_release);
  const uint64_t odd = generation_.load(std::memory_order_relaxed) % 2;
  generation_.fetch_add(odd == 1 ? 1 : 2, std::memory_order_release);  // even: look at the socket
  if (further || spread_ > 1) publishNext();
  if (!further) filling_.store(false, std::memory_order_release);
}

/// The header of the next message may have come along; the socket knows no more of it.
void Incoming::publishNext() {
  for (const Arriving& at : arriving()) {
    if (at.hasHead() && at.header.number == number_) return publish(at.header.call);
  }
  if (arriving_[0].headGot > 0 || ahead_.size() < kHeaderBytes) return;
  const Result<Header> next =
      decodeHeader(std::span<const std::byte, kHeaderBytes>(ahead_.data(), kHeaderBytes), spread_);
  if (next.ok() && next->number == number_) publish(next->call);
}

}  // namespace tutti::tcp
