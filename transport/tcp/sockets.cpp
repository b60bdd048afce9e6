#include "transport/tcp/sockets.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "src/base/congestion.hpp"
#include "src/base/log.hpp"
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

}  // namespace

Sockets::Sockets(int peer, int lane, std::vector<Fd> fds, std::shared_ptr<Reopener> reopener)
    : peer_(peer),
      lane_(lane),
      count_(static_cast<int>(fds.size())),
      fds_(std::move(fds)),
      spread_(static_cast<uint32_t>(count_)),
      onHost_(staysOnHost(fd(0))),
      local_(onHost_ && reopener == nullptr) {
  if (onHost_) spread_ = 1;
  for (const Fd& fd : fds_) prepare(fd.get());
  if (reopener == nullptr) return;
  for (int i = 0; i < count_; ++i) {
    resumable_.push_back(std::make_unique<ResumableSocket>(
        peer, lane * count_ + i, std::move(fds_[static_cast<size_t>(i)]), reopener, [this](int fd) { prepare(fd); }));
  }
}

void Sockets::prepare(int fd) const {
  if (!onHost_) followSystemPace(fd);
  // A message must leave when it is written, but for rows (row.hpp).  Socket buffers are left alone: setting them
  // would end the kernel's own tuning, which goes higher than we may ask for.
  setOption(fd, TCP_NODELAY, 1);
}

void Sockets::onChange(const std::function<void(int, bool)>& change) {
  for (const auto& socket : resumable_) socket->onChange(change);
}

void Sockets::serve() {
  for (const auto& socket : resumable_) socket->serve();
}

bool Sockets::tick(int64_t nowNs) {
  bool away = false;
  for (const auto& socket : resumable_) away = socket->tick(nowNs) || away;
  return away;
}

void Sockets::setOption(int fd, int name, int value) const {
  if (setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value) == 0) return;
  TUTTI_DEBUG("tcp", "peer ", peer_, ": no socket option ", name, ", errno ", errno);
}

void Sockets::gather(bool on) { setOption(fd(0), TCP_NODELAY, on ? 0 : 1); }

void Sockets::acknowledge() {
  answered_ = came_ = false;
  setOption(fd(0), TCP_QUICKACK, 1);
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
  if (resumable()) return resumable_[static_cast<size_t>(i)]->read(parts);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return got(retried([&] { return ::recvmsg(fd(i), &message, MSG_DONTWAIT); }));
}

Result<size_t> Sockets::read(int i, std::span<std::byte> bytes) {
  if (resumable()) {
    iovec part{bytes.data(), bytes.size()};
    return read(i, std::span(&part, 1));
  }
  return got(retried([&] { return ::recv(fd(i), bytes.data(), bytes.size(), MSG_DONTWAIT); }));
}

Result<size_t> Sockets::written(ssize_t n) {
  if (n >= 0) {
    answered_ = true;
    return static_cast<size_t>(n);
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
  return broken(errno, "sending to");
}

Result<size_t> Sockets::got(ssize_t n) {
  if (n > 0) {
    came_ = true;
    return static_cast<size_t>(n);
  }
  if (n == 0) {
    return remoteError("rank ", peer_, " has closed its tcp connection (lane ", lane_, "): it ended or gave up");
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
  return broken(errno, "receiving from");
}

Status Sockets::broken(int errnum, const char* doing) const {
  const Status text = errnoError(errnum, cat("tcp: ", doing, " rank ", peer_, " failed (lane ", lane_, ")"));
  switch (errnum) {
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN: return {tuttiRemoteError, text.message()};
    default: return text;
  }
}

}  // namespace tutti::tcp
