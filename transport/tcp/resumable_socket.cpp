#include "transport/tcp/resumable_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/caught.hpp"
#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/base/tcp_stall.hpp"
#include "transport/tcp/retried.hpp"

namespace tutti::tcp {
namespace {

constexpr int64_t kLookNs = 20 * kMs;         // between two looks for a connection that the peer has made
constexpr int64_t kFirstProbeNs = 250 * kMs;  // of silence, then of more
constexpr int64_t kLastProbeNs = 2000 * kMs;
constexpr int64_t kLeastBackoffNs = 10 * kMs;
constexpr int kMostPulls = 8;
constexpr size_t kTakeBytes = 128 << 10;  // copied before they are sent, so that the peer begins when we do
constexpr size_t kParts = 64;
constexpr int kNewer = 3;  // generations to look for: one may have broken before the other end has seen it

size_t bytesOf(std::span<const iovec> parts) {
  size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

/// `parts` behind their first `skip` bytes.
std::span<const iovec> behind(std::span<const iovec> parts, size_t skip, std::span<iovec, 4> into) {
  size_t n = 0;
  for (const iovec& part : parts) {
    const size_t from = std::min(skip, part.iov_len);
    skip -= from;
    if (from == part.iov_len) continue;
    TUTTI_ASSERT_CMP(n, <, into.size());
    into[n++] = {static_cast<std::byte*>(part.iov_base) + from, part.iov_len - from};
  }
  return into.first(n);
}

}  // namespace

ResumableSocket::ResumableSocket(int peer, StreamIndex index, Fd fd, std::shared_ptr<Reopener> reopener,
                                 std::function<void(int)> prepare, std::unique_ptr<RecordSeal> seal)
    : peer_(peer),
      index_(index),
      reopener_(std::move(reopener)),
      prepare_(std::move(prepare)),
      fd_(std::move(fd)),
      stream_(reopener_->settings().windowBytes, std::move(seal)) {}

ResumableSocket::~ResumableSocket() {
  // Without memory for it the peer hears nothing, and takes the connection for one that broke.
  (void)caught([this]() -> Status {
    stream_.abandon();  // where bytes were to go may be gone, and a write that fails reads
    drain();
    stream_.bye();
    flush();
    return {};
  });
  dropFd();
}

// ---- Bytes

Result<size_t> ResumableSocket::write(std::span<const iovec> parts) {
  if (ended_) return *ended_;
  // No more than the connection takes: the rest may go by another one.
  const auto give = [&] {
    while (stream_.sent() == stream_.written()) {
      const auto taken = static_cast<size_t>(stream_.written() - reported_);
      if (stream_.write(parts, taken, kTakeBytes) == 0) break;
      flush();
    }
    flush();
  };
  give();
  if (stream_.sent() == reported_ && pull()) give();  // the window may have been full of what the peer has
  const auto moved = static_cast<size_t>(stream_.sent() - reported_);
  reported_ += moved;
  return moved;
}

Result<size_t> ResumableSocket::read(std::span<const iovec> parts, bool straight) {
  const size_t want = bytesOf(parts);
  std::array<iovec, 4> rest;
  size_t n = stream_.take(parts);
  // A short read has emptied the socket.
  for (int i = 0; i < kMostPulls && n < want; ++i) {
    const std::span<const iovec> left = behind(parts, n, rest);
    const bool more = pull(straight ? left : std::span<const iovec>());
    n += stream_.take(behind(parts, n, rest));
    if (!more) break;
  }
  if (n > 0) flush();  // what it frees
  if (n == 0 && ended_) return *ended_;
  return n;
}

void ResumableSocket::serve() {
  if (!stream_.resumed()) (void)pull();
  flush();
}

void ResumableSocket::flush() {
  while (fd_.valid()) {
    std::array<iovec, kParts> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = stream_.toSend(parts);
    if (message.msg_iovlen == 0) return;
    const ssize_t n = retried([&] { return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return writeFailed(std::strerror(errno));
    traffic_.left = true;
    stream_.wasSent(static_cast<size_t>(n));
  }
}

/// What has come before counts: the peer may have said bye.
void ResumableSocket::writeFailed(const std::string& why) {
  while (pull()) {
  }
  if (fd_.valid()) broke(why);
}

/// One read; whether there may be more to read.
bool ResumableSocket::pull(std::span<const iovec> parts) {
  if (!fd_.valid()) return false;
  std::array<iovec, 5> to;
  msghdr message{};
  message.msg_iov = to.data();
  message.msg_iovlen = stream_.aim(parts, to);
  if (message.msg_iovlen == 0) return broke("the peer has sent more than there is room for"), false;
  const size_t room = bytesOf(std::span(to).first(message.msg_iovlen));
  const ssize_t n = retried([&] { return ::recvmsg(fd_.get(), &message, MSG_DONTWAIT); });
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (n < 0) return broke(std::strerror(errno)), false;
  if (n == 0) return broke("the connection was closed"), false;
  heard_ = traffic_.came = true;
  const bool resumed = stream_.resumed();
  if (const Status status = stream_.came(static_cast<size_t>(n)); !status.ok()) return broke(status.message()), false;
  if (!resumed && stream_.resumed()) cameBack();
  return fd_.valid() && static_cast<size_t>(n) == room;
}

/// What is unread would turn our end into a reset, which might overtake the bye.  Nobody's memory is written any more.
void ResumableSocket::drain() {
  std::array<std::byte, 4096> scratch;
  while (fd_.valid() && retried([&] { return ::recv(fd_.get(), scratch.data(), scratch.size(), MSG_DONTWAIT); }) > 0) {
  }
}

// ---- Connections

void ResumableSocket::dropFd() {
  if (!fd_.valid()) return;
  if (change_) change_(fd_.get(), false);
  fd_.reset();
}

void ResumableSocket::broke(const std::string& why) {
  dropFd();
  stream_.disconnect();
  if (stream_.peerSaidBye()) {
    ended_ = remoteError(ErrorCode::PeerClosed, "rank ", peer_, " has closed its tcp connection: it ended or gave up");
    return;
  }
  const int64_t now = nowNs();
  begin(why, now);
  stalled_ = false;
  // One that breaks before it was of any use is not made again at once.
  nextOpenNs_ = attempts_ == 0 ? now : now + (kLeastBackoffNs << std::min(attempts_, 6));
  ++attempts_;
}

void ResumableSocket::begin(const std::string& why, int64_t nowNs) {
  TUTTI_INFO("tcp", "rank ", reopener_->rank(), "'s connection ", numberOfStream(index_), " to rank ", peer_,
             " broke: ", why);
  if (away()) return;
  why_ = why;
  if (!reopener_->settings().again) return fail("is not made again (TUTTI_RECONNECT=none)");
  beganNs_ = nextOpenNs_ = nowNs;
}

void ResumableSocket::fail(const std::string& why) {
  dropFd();
  ended_ = remoteError(ErrorCode::ConnectionLost, "rank ", reopener_->rank(), "'s tcp connection ",
                       numberOfStream(index_), " to rank ", peer_, " broke (", why_, ") and ", why);
}

void ResumableSocket::adopt(Fd fd, int generation) {
  dropFd();
  pending_.reset();
  fd_ = std::move(fd);
  generation_ = generation;
  reopener_->taken(peer_, index_, generation);
  prepare_(fd_.get());
  if (change_) change_(fd_.get(), true);
  resentBefore_ = stream_.resent();
  stream_.connect();
  heard_ = true;
  flush();
}

/// The peer goes on, too.
void ResumableSocket::cameBack() {
  const int64_t now = nowNs();
  const std::string text =
      cat("rank ", reopener_->rank(), "'s connection ", numberOfStream(index_), " to rank ", peer_, " ",
          stalled_ ? "stalled" : "broke", " (", why_.empty() ? "noticed by the other end" : why_, ") and is back",
          away() ? cat(" after ", (now - beganNs_) / kMs, " ms") : "", "; ", stream_.resent() - resentBefore_,
          " bytes are sent again");
  const uint64_t times = away() ? reopener_->warnsOf(peer_, now) : 0;
  TUTTI_LOG_AT(times > 0 ? LogLevel::Warn : LogLevel::Info, "tcp", text,
               times > 1 ? cat("; ", times - 1, " others since the last such line") : "");
  why_.clear();
  stalled_ = false;
  attempts_ = 0;
  flush();
}

// ---- Time

bool ResumableSocket::tick(int64_t nowNs) {
  if (ended_) return false;
  if (nowNs >= nextLookNs_) {
    nextLookNs_ = nowNs + kLookNs;
    lookForNewer();
  }
  if (fd_.valid()) probe(nowNs);
  if (away() && !ended_) goOnOpening(nowNs);
  return away() || !stream_.resumed();
}

void ResumableSocket::lookForNewer() {
  for (int generation = generation_ + 1; generation <= generation_ + kNewer; ++generation) {
    Result<Fd> made = reopener_->opened(peer_, index_, generation);
    if (!made.ok()) return;  // who waits for the communicator hears of it there
    if (made->valid()) return adopt(std::move(*made), generation);
  }
}

void ResumableSocket::goOnOpening(int64_t nowNs) {
  const bool waitsForPeer = fd_.valid() && !stream_.resumed();
  if (waitsForPeer) return;
  if (pending_ == nullptr && nowNs >= nextOpenNs_) {
    pendingGeneration_ = generation_ + 1;
    pending_ = reopener_->open(peer_, index_, pendingGeneration_);
    if (pending_ == nullptr) return fail("its transport has ended");
  }
  if (pending_ != nullptr) {
    Result<Fd> made = pending_->poll();
    if (!made.ok()) return fail(cat("could not be made again: ", made.status().message()));
    if (made->valid()) return adopt(std::move(*made), pendingGeneration_);
  }
  const int64_t deadlineNs = reopener_->settings().deadlineNs;
  if (!fd_.valid() && deadlineNs > 0 && nowNs - beganNs_ > deadlineNs) {
    fail(cat("could not be made again within ", deadlineNs / kMs, " ms (TUTTI_RECONNECT_MS)"));
  }
}

/// Silence is broken by a word of ours, so that the system finds out whether the connection stands.
void ResumableSocket::probe(int64_t nowNs) {
  if (std::exchange(heard_, false)) {
    heardNs_ = nowNs;
    probeGapNs_ = kFirstProbeNs;
  }
  if (nowNs - std::max(heardNs_, probedNs_) >= probeGapNs_) {
    probedNs_ = nowNs;
    probeGapNs_ = std::min(probeGapNs_ * 3 / 2, kLastProbeNs);
    stream_.probe();
    (void)pull();
    flush();
  }
  if (!reopener_->settings().again) return;  // the system gives it up
  if (!fd_.valid() || (away() && stream_.resumed())) return;
  const std::optional<int64_t> silentMs = tcpSilentMs(fd_.get());
  if (!silentMs) return;
  const std::string why = cat("nothing was acknowledged for ", *silentMs, " ms");
  if (!stream_.resumed()) return broke(why);  // a new one that leads nowhere
  begin(why, nowNs);
  stalled_ = true;
}

}  // namespace tutti::tcp
