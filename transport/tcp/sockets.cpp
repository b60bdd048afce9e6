#include "transport/tcp/sockets.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/congestion.hpp"
#include "src/base/log.hpp"
#include "src/base/text.hpp"
#include "transport/tcp/retried.hpp"

namespace tutti::tcp {
namespace {

// The same address at both ends.
bool staysOnHost(int fd) {
  sockaddr_storage self{};
  sockaddr_storage peer{};
  socklen_t selfBytes = sizeof self;
  socklen_t peerBytes = sizeof peer;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&self), &selfBytes) != 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peerBytes) != 0) return false;
  if (self.ss_family != peer.ss_family) return false;
  if (self.ss_family == AF_INET) {
    const auto address = [](const sockaddr_storage& s) {
      return reinterpret_cast<const sockaddr_in&>(s).sin_addr.s_addr;
    };
    return address(self) == address(peer);
  }
  if (self.ss_family != AF_INET6) return false;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(self).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr, sizeof(in6_addr)) == 0;
}

std::string peerAddress(int fd) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  char text[INET6_ADDRSTRLEN] = "?";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return text;
  const void* address = peer.ss_family == AF_INET6
                            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr)
                            : &reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
  if (inet_ntop(peer.ss_family, address, text, sizeof text) == nullptr) return "?";
  return text;
}

/// What a socket that goes by one of several interfaces takes beyond what is on the way: a slow one must not take what
/// a fast one could carry, and neither may run dry until we look again.
constexpr int kUnsentBytes = 128 << 10;

/// 0 or an errno.
int setBusyPoll(int fd, int us) { return setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof us) == 0 ? 0 : errno; }

/// What the log says of a connection's queue: one that no adapter feeds has none to look into.
std::string busyPollText(int fd) {
  int us = 0;
  unsigned queue = 0;
  socklen_t usBytes = sizeof us;
  socklen_t queueBytes = sizeof queue;
  if (getsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, &usBytes) != 0 || us == 0) return "no busy poll";
  if (getsockopt(fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &queue, &queueBytes) != 0) queue = 0;
  if (queue == 0) return cat("busy poll ", us, " us without effect, as its interface has no queue to look into");
  return cat("busy poll ", us, " us of queue ", queue);
}

}  // namespace

Status Tuning::check() const {
  if (!congestion.empty()) TUTTI_TRY(checkCongestionControl(congestion));
  if (busyPollUs == 0) return {};
  const Fd fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fresh.valid()) return errnoError(errno, ErrorCode::SocketRefused, "a socket to try busy polling on");
  switch (const int error = setBusyPoll(fresh.get(), busyPollUs)) {
    case 0: return {};
    case EPERM:
      return invalidUsage(ErrorCode::NotHonoured, "TUTTI_TCP_BUSY_POLL_US=", busyPollUs,
                          ": the system gives this user no more than ",
                          "net.core.busy_read says; as root: sysctl net.core.busy_read=", busyPollUs,
                          ", or the capability CAP_NET_ADMIN");
    default:
      return invalidUsage(ErrorCode::NotHonoured, "TUTTI_TCP_BUSY_POLL_US=", busyPollUs,
                          ": this kernel has no busy polling (", std::strerror(error), ")");
  }
}

Sockets::Sockets(int peer, int lane, std::vector<Fd> fds, std::shared_ptr<Reopener> reopener, Tuning tuning,
                 const Sealing& sealing)
    : peer_(peer),
      lane_(lane),
      count_(static_cast<int>(fds.size())),
      fds_(std::move(fds)),
      spread_(static_cast<uint32_t>(count_)),
      onHost_(staysOnHost(fd(0))),
      tuning_(std::move(tuning)) {
  if (onHost_) spread_ = 1;
  if (severalPaths()) loads_.resize(static_cast<size_t>(count_));
  for (int i = 0; i < count_; ++i) prepare(i, fd(i));
  if (reopener == nullptr) return;
  for (int i = 0; i < count_; ++i) {
    const auto at = static_cast<size_t>(i);
    std::unique_ptr<RecordSeal> seal;
    if (sealing.protection != Protection::Checksums)
      seal = std::make_unique<RecordSeal>(sealing.keys[at], sealing.protection == Protection::Encryption);
    resumable_.push_back(std::make_unique<ResumableSocket>(
        peer, streamIndex(lane, i, count_, tuning_.nPaths), std::move(fds_[at]), reopener,
        [this, i](int fd) { prepare(i, fd); }, std::move(seal)));
  }
}

// A socket that takes another's place may do so in the middle of a row.
void Sockets::prepare(int i, int fd) {
  if (!onHost_) tune(fd);
  near_ = near_ && (onHost_ || isNear(fd));
  // A message must leave when it is written, but for rows (row.hpp).  Socket buffers are left alone: setting them
  // would end the kernel's own tuning, which goes higher than we may ask for.
  setOption(fd, TCP_NODELAY, i == 0 && gathers_ ? 0 : 1);
  if (tuning_.nPaths > 1) setOption(fd, TCP_NOTSENT_LOWAT, kUnsentBytes);
}

// The options were tried before (Tuning::check), so that a refusal here is the system's change of mind, and no reason
// to fail.
void Sockets::tune(int fd) const {
  if (tuning_.congestion.empty()) {
    followSystemPace(fd);
  } else if (const Status set = setCongestionControl(fd, tuning_.congestion); !set.ok()) {
    TUTTI_WARN("tcp", "peer ", peer_, ": ", set.text());
  }
  if (tuning_.busyPollUs > 0) {
    const int error = setBusyPoll(fd, tuning_.busyPollUs);
    if (error != 0) TUTTI_WARN("tcp", "peer ", peer_, ": no busy poll, errno ", error);
  }
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return;
  TUTTI_DEBUG("tcp", "peer ", peer_, " lane ", lane_, ": congestion control ", congestionControlOf(fd), ", round trip ",
              info.tcpi_rtt, " us, segments of ", info.tcpi_snd_mss, " bytes, ", busyPollText(fd), ", to ",
              peerAddress(fd));
}

void Sockets::onChange(const std::function<void(int, bool)>& change) {
  for (const auto& socket : resumable_) socket->onChange(change);
}

void Sockets::serve() {
  for (const auto& socket : resumable_) socket->serve();
  if (!severalPaths()) return;
  const int64_t now = nowNs();
  for (int i = 0; i < count_; ++i) {
    if (fd(i) >= 0) loads_[static_cast<size_t>(i)].watch(fd(i), now);
  }
}

bool Sockets::tick(int64_t nowNs) {
  bool away = false;
  for (const auto& socket : resumable_) away = socket->tick(nowNs) || away;
  return away;
}

void Sockets::setOption(int fd, int name, int value) const {
  if (fd < 0) return;  // it is away
  if (setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value) == 0) return;
  TUTTI_DEBUG("tcp", "peer ", peer_, ": no socket option ", name, ", errno ", errno);
}

void Sockets::switchGathering(bool on) {
  gathers_ = on;
  setOption(fd(0), TCP_NODELAY, on ? 0 : 1);
}

void Sockets::acknowledge() {
  answered_ = came_ = false;
  setOption(fd(0), TCP_QUICKACK, 1);
}

bool Sockets::hasRoom(int i) const {
  if (resumable() && !resumable_[static_cast<size_t>(i)]->idle()) return false;
  pollfd socket{fd(i), POLLOUT, 0};
  return socket.fd >= 0 && ::poll(&socket, 1, 0) == 1;
}

int Sockets::soonest(uint32_t among, size_t bytes) {
  const int64_t now = nowNs();
  int best = -1;
  bool hasIt = false;
  double least = 0;
  for (int i = 0; i < count_; ++i) {
    if (fd(i) < 0) continue;
    PathLoad& load = loads_[static_cast<size_t>(i)];
    const double until = load.untilDelivered(fd(i), bytes, now);
    const bool room = (among >> i & 1) != 0 && hasRoom(i);
    if (!room && !load.delivers()) continue;
    if (best >= 0 && until >= least) continue;
    best = i;
    least = until;
    hasIt = room;
  }
  return hasIt ? best : -1;
}

Result<size_t> Sockets::write(int i, std::span<iovec> parts) {
  if (resumable()) return resumable_[static_cast<size_t>(i)]->write(parts);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return written(retried([&] { return ::sendmsg(fd(i), &message, MSG_NOSIGNAL | MSG_DONTWAIT); }));
}

Result<size_t> Sockets::write(int i, std::span<const std::byte> bytes) {
  if (resumable()) {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // which is only read
    return write(i, std::span(&part, 1));
  }
  return written(retried([&] { return ::send(fd(i), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT); }));
}

Result<size_t> Sockets::read(int i, std::span<iovec> parts) {
  if (resumable()) return readResumable(i, parts, true);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return got(i, retried([&] { return ::recvmsg(fd(i), &message, MSG_DONTWAIT); }));
}

Result<size_t> Sockets::readAhead(int i, std::span<std::byte> bytes) {
  if (!resumable()) return read(i, bytes);
  const iovec part{bytes.data(), bytes.size()};
  return readResumable(i, std::span(&part, 1), false);
}

Result<size_t> Sockets::read(int i, std::span<std::byte> bytes) {
  if (resumable()) {
    iovec part{bytes.data(), bytes.size()};
    return read(i, std::span(&part, 1));
  }
  return got(i, retried([&] { return ::recv(fd(i), bytes.data(), bytes.size(), MSG_DONTWAIT); }));
}

Result<size_t> Sockets::written(ssize_t n) {
  if (n >= 0) {
    answered_ = true;
    return static_cast<size_t>(n);
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
  return broken(errno, "sending to");
}

Result<size_t> Sockets::readResumable(int i, std::span<const iovec> parts, bool straight) {
  ResumableSocket& socket = *resumable_[static_cast<size_t>(i)];
  Result<size_t> n = socket.read(parts, straight);
  const ResumableSocket::Traffic traffic = socket.traffic();
  answered_ = answered_ || traffic.left;
  came_ = came_ || traffic.came;
  if (!n.ok() && socket.peerSaidBye()) closed_ |= 1u << i;
  return n;
}

Result<size_t> Sockets::got(int i, ssize_t n) {
  if (n > 0) {
    came_ = true;
    return static_cast<size_t>(n);
  }
  if (n == 0) {
    closed_ |= 1u << i;
    return remoteError(ErrorCode::PeerClosed, "rank ", peer_, " has closed its tcp connection (lane ", lane_,
                       "): it ended or gave up");
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
  return broken(errno, "receiving from");
}

Status Sockets::broken(int errnum, const char* doing) const {
  const Status text =
      errnoError(errnum, ErrorCode::SocketRefused, cat("tcp: ", doing, " rank ", peer_, " failed (lane ", lane_, ")"));
  switch (errnum) {
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN: return {tuttiRemoteError, ErrorCode::ConnectionLost, text.message()};
    default: return text;
  }
}

}  // namespace tutti::tcp
