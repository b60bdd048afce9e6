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
  if (asked_) retarget(spare(), false);
}

Result<bool> Incoming::take(std::byte* dst, const Expect& expect, Fingerprint* seen) {
  TUTTI_ASSERT_CMP(expect.bytes, <=, slotBytes_);
  polled_ = true;
  if (headerGot_ == kHeaderBytes) TUTTI_TRY(check(&expect, seen));
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
  if (headerGot_ == kHeaderBytes) TUTTI_TRY(check(&expect, seen));
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
  const bool fits = headerGot_ < kHeaderBytes || message_.bytes <= slotBytes_;
  if (!fits) return false;  // whoever asks for this message will be told
  Result<bool> moved = advance(nullptr, nullptr);
  const bool gone = !moved.ok() && moved.status().code() == tuttiRemoteError && headerGot_ == 0;
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

// What has come so far decides what is still to be read: the header (and with it, if we know what to expect, the body),
// then the rest of each stripe.  One look at every socket, no loop: the caller polls.
Result<bool> Incoming::advance(const Expect* expect, Fingerprint* seen) {
  if (ended_) return *ended_;
  bool moved = false;
  if (headerGot_ < kHeaderBytes) {
    TUTTI_ASSIGN(moved, readHeader(expect));
    if (headerGot_ < kHeaderBytes) return moved;
    TUTTI_TRY(check(expect, seen));
    if (message_.bytes > slotBytes_) return moved;
    // Only now is it known that the target has room for as many.
    if (got_[0] == 0) got_[0] = ahead_.take(target_, stripes_[0].bytes);
    if (expect != nullptr && stripes_.count == 1) return moved;  // what there was has come with the header
  }
  if (message_.bytes > slotBytes_) return moved;
  for (int i = 0; i < stripes_.count; ++i) {
    size_t& got = got_[static_cast<size_t>(i)];
    const Stripe stripe = stripes_[i];
    if (got == stripe.bytes) continue;
    TUTTI_ASSIGN(const size_t n, sockets_.read(i, std::span(target_ + stripe.offset + got, stripe.bytes - got)));
    got += n;
    moved = moved || n > 0;
  }
  return moved;
}

// Small messages come through the buffer.  With the expectation of a large one, its first stripe is read in the same
// call as the header.  If the message turns out to be another one, the bytes behind its header are garbage within the
// expected size, and the endpoint has failed.
Result<bool> Incoming::readHeader(const Expect* expect) {
  const Stripe first = expect == nullptr ? Stripe{} : Stripes(expect->bytes, spread_)[0];
  if (first.bytes > kMostAheadBytes && ahead_.size() == 0) return readBehindHeader(first);
  size_t n = 1;
  if (headerGot_ + ahead_.size() < kHeaderBytes) {
    if (rests()) return false;
    // From here to the end of the message the socket may be messages ahead of it.  Partner: acquire in pending().
    filling_.store(true, std::memory_order_release);
    TUTTI_ASSIGN(n, ahead_.fill(sockets_, 0));
    if (headerGot_ == 0 && ahead_.size() == 0) filling_.store(false, std::memory_order_release);
    if (n == 0) rest();
  }
  headerGot_ += ahead_.take(header_.data() + headerGot_, kHeaderBytes - headerGot_);
  if (headerGot_ < kHeaderBytes) return n > 0;
  TUTTI_TRY(headerCame(expect == nullptr));
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

Result<bool> Incoming::readBehindHeader(const Stripe& first) {
  iovec parts[2] = {{header_.data() + headerGot_, kHeaderBytes - headerGot_}, {target_, first.bytes}};
  TUTTI_ASSIGN(const size_t n, sockets_.read(0, std::span(parts)));
  const size_t ofHeader = std::min(n, kHeaderBytes - headerGot_);
  headerGot_ += ofHeader;
  if (headerGot_ < kHeaderBytes) return n > 0;
  TUTTI_TRY(headerCame(false));
  got_[0] = n - ofHeader;
  return true;
}

Status Incoming::headerCame(bool unasked) {
  const Result<Header> header = decodeHeader(header_, spread_);  // which never grows: see there
  if (!header.ok()) return remoteError("tcp: rank ", sockets_.peer(), ": ", header.status().message());
  message_ = *header;
  restUntilNs_ = 0;
  rested_ = false;
  sockets_.heard();
  if (sockets_.answered()) hurry();
  spread_ = message_.spread;
  stripes_ = Stripes(message_.bytes, spread_);
  if (unasked) publish(message_.call);
  return {};
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
  if (headerGot_ == kHeaderBytes) {
    for (int i = 0; i < stripes_.count; ++i) {
      const size_t offset = stripes_[i].offset;
      const size_t bytes = got_[static_cast<size_t>(i)];
      if (bytes > 0) std::memcpy(dst + offset, target_ + offset, bytes);
    }
  }
  target_ = dst;
}

void Incoming::reset() {
  asked_ = false;
  target_ = spare();
  headerGot_ = 0;
  stripes_ = {};
  got_.fill(0);
  // Before the generation says "look at the socket": as long as there is something in the buffer, the socket is
  // further.
  if (ahead_.size() > 0) filling_.store(true, std::memory_order_release);
  const uint64_t odd = generation_.load(std::memory_order_relaxed) % 2;
  generation_.fetch_add(odd == 1 ? 1 : 2, std::memory_order_release);  // even: look at the socket
  if (ahead_.size() >= kHeaderBytes) {  // the next message has come along; the socket knows no more of it
    const Result<Header> next =
        decodeHeader(std::span<const std::byte, kHeaderBytes>(ahead_.data(), kHeaderBytes), spread_);
    if (next.ok()) publish(next->call);
  }
  if (ahead_.size() == 0) filling_.store(false, std::memory_order_release);
}

bool Incoming::whole() const {
  if (headerGot_ < kHeaderBytes) return false;
  for (int i = 0; i < stripes_.count; ++i) {
    if (got_[static_cast<size_t>(i)] < stripes_[i].bytes) return false;
  }
  return true;
}

}  // namespace tutti::tcp
