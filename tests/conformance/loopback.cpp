#include "tests/conformance/loopback.hpp"

#include <fcntl.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace tutti::conformance {
namespace {

struct LoopbackAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

LoopbackAddress anyPort(int family) {
  LoopbackAddress address;
  if (family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.bytes = sizeof in;
    std::memcpy(&address.storage, &in, sizeof in);
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_addr = in6addr_loopback;
    address.bytes = sizeof in;
    std::memcpy(&address.storage, &in, sizeof in);
  }
  return address;
}

void setBuffers(const Fd& fd, int bytes) {
  if (bytes <= 0) return;
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

Fd newSocket(int family, int bufferBytes) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setBuffers(fd, bufferBytes);
  return fd;
}

Result<std::pair<Fd, Fd>> localPair(int bufferBytes) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return errnoError(errno, "socketpair");
  }
  std::pair<Fd, Fd> both(fds[0], fds[1]);
  setBuffers(both.first, bufferBytes);
  setBuffers(both.second, bufferBytes);
  return both;
}

constexpr size_t kRemembered = 4;

/// Where the sockets of a family and a size are dialed.  One for all pairs, since every listener of its own would take
/// a port that no connection of the last minute has had, and those run out.
struct Listener {
  Fd fd;
  LoopbackAddress address;
};

Result<Listener*> listenerOf(int family, int bufferBytes) {
  static std::map<std::pair<int, int>, Listener> all;
  Listener& listener = all[{family, bufferBytes}];
  if (listener.fd.valid()) return &listener;
  Fd fd = newSocket(family, bufferBytes);
  listener.address = anyPort(family);
  LoopbackAddress& address = listener.address;
  const bool listens = fd.valid() && ::bind(fd.get(), address.get(), address.bytes) == 0 &&
                       ::listen(fd.get(), 1) == 0 && ::getsockname(fd.get(), address.get(), &address.bytes) == 0;
  if (!listens) return errnoError(errno, "no loopback listener");
  listener.fd = std::move(fd);
  return &listener;
}

}  // namespace

Result<std::pair<Fd, Fd>> loopbackPair(int family, int bufferBytes) {
  if (family == AF_UNIX) return localPair(bufferBytes);
  static std::mutex mutex;
  const std::lock_guard lock(mutex);  // who dials is the one who is accepted
  TUTTI_ASSIGN(Listener * listener, listenerOf(family, bufferBytes));
  Fd dialed = newSocket(family, bufferBytes);
  if (::connect(dialed.get(), listener->address.get(), listener->address.bytes) != 0) {
    return errnoError(errno, "connect");
  }
  Fd accepted(::accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.valid()) return errnoError(errno, "accept");
  for (int fd : {dialed.get(), accepted.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return std::pair<Fd, Fd>(std::move(dialed), std::move(accepted));
}

bool hasFamily(int family) { return loopbackPair(family, 0).ok(); }

Result<Fd> LoopbackStreams::open(int rank, int peer, StreamIndex index) {
  std::lock_guard lock(mutex_);
  const auto mine = waiting_.find({rank, index});
  if (mine != waiting_.end()) {
    Fd fd = std::move(mine->second);
    waiting_.erase(mine);
    return fd;
  }
  TUTTI_ASSIGN(auto both, loopbackPair(family_, bufferBytes_));
  if (remembers_) remembered_.emplace_back(::fcntl(both.first.get(), F_DUPFD_CLOEXEC, 0));
  if (remembered_.size() > kRemembered) remembered_.pop_front();
  waiting_.emplace(std::pair(peer, index), std::move(both.second));
  return std::move(both.first);
}

Fd LoopbackStreams::opened(int rank, StreamIndex index) {
  std::lock_guard lock(mutex_);
  const auto mine = waiting_.find({rank, index});
  if (mine == waiting_.end()) return {};
  Fd fd = std::move(mine->second);
  waiting_.erase(mine);
  return fd;
}

void LoopbackStreams::cutOne(size_t which) {
  std::lock_guard lock(mutex_);
  if (!remembered_.empty()) ::shutdown(remembered_[which % remembered_.size()].get(), SHUT_RDWR);
}

}  // namespace tutti::conformance
