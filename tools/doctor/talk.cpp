#include "tools/doctor/talk.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "src/base/clock.hpp"

namespace tutti::doctor {
namespace {

constexpr size_t kMostLine = 4096;
constexpr size_t kStreamBytes = 4 << 20;
constexpr size_t kPartBytes = 64 << 10;  // under way at a time, so that neither end waits for the other to read
constexpr int kRoundTrips = 20;

Status limitSteps(int fd) {
  const timeval limit{kStepMs / 1000, kStepMs % 1000 * 1000};
  const int on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    return errnoError(errno, "cannot set up a connection");
  }
  return {};
}

Status brokenBy(int why) {
  if (why == EAGAIN || why == EWOULDBLOCK) return timeoutError("nothing came for ", kStepMs, " ms");
  return {tuttiRemoteError, errnoError(why, "the connection broke").message()};
}

Status sendAll(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return brokenBy(errno);
    data += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return {};
}

Status readAll(int fd, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, data, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return brokenBy(errno);
    if (got == 0) return remoteError("the other end closed the connection");
    data += got;
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

Status thereAndBack(int fd, std::vector<char>* data) {
  TUTTI_TRY(sendAll(fd, data->data(), data->size()));
  return readAll(fd, data->data(), data->size());
}

/// A connection that is being made: done, or why not.
Status awaitConnected(int fd) {
  pollfd wanted{fd, POLLOUT, 0};
  if (::poll(&wanted, 1, kStepMs) == 0) return timeoutError("no answer within ", kStepMs, " ms");
  int why = 0;
  socklen_t bytes = sizeof why;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &bytes) != 0) why = errno;
  return why == 0 ? Status() : errnoError(why, "no connection");
}

}  // namespace

Result<Fd> dial(const SocketAddress& to) {
  Fd fd(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errnoError(errno, "no socket");
  if (::connect(fd.get(), to.raw(), to.bytes) != 0) {
    if (errno != EINPROGRESS) return errnoError(errno, "no connection");
    TUTTI_TRY(awaitConnected(fd.get()));
  }
  if (::fcntl(fd.get(), F_SETFL, 0) != 0) return errnoError(errno, "cannot set up a connection");
  TUTTI_TRY(limitSteps(fd.get()));
  return fd;
}

Result<Fd> listenOn(const SocketAddress& at) {
  Fd fd(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!fd) return errnoError(errno, "no socket");
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.family() == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd.get(), at.raw(), at.bytes) != 0 || ::listen(fd.get(), 16) != 0) {
    return errnoError(errno, cat("cannot listen on ", at.text()));
  }
  return fd;
}

SocketAddress boundTo(int fd) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) != 0) return {};
  return address;
}

Result<Fd> acceptOne(const std::vector<Fd>& listening, int timeoutMs) {
  std::vector<pollfd> wanted;
  for (const Fd& fd : listening) wanted.push_back({fd.get(), POLLIN, 0});
  const int ready = ::poll(wanted.data(), wanted.size(), timeoutMs);
  if (ready < 0) return errnoError(errno, "cannot wait for connections");
  if (ready == 0) return timeoutError("nobody came within ", timeoutMs, " ms");
  const auto at = std::ranges::find_if(wanted, [](const pollfd& p) { return p.revents != 0; });
  Fd fd(::accept4(at->fd, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) return errnoError(errno, "a connection went before it was taken");
  TUTTI_TRY(limitSteps(fd.get()));
  return fd;
}

Status sendLine(int fd, std::string_view line) {
  const std::string whole = cat(line, "\n");
  return sendAll(fd, whole.data(), whole.size());
}

Result<std::string> readLine(int fd) {
  std::string line;
  for (char c = 0; line.size() < kMostLine; line += c) {
    TUTTI_TRY(readAll(fd, &c, 1));
    if (c == '\n') return line;
  }
  return remoteError("the other end is no tutti-doctor");
}

Result<Echoed> measure(int fd) {
  Echoed echoed;
  std::vector<char> small(8, 's'), part(kPartBytes, 'p');
  for (int i = 0; i < kRoundTrips; ++i) {
    const int64_t start = nowNs();
    TUTTI_TRY(thereAndBack(fd, &small));
    const double us = static_cast<double>(nowNs() - start) / 1e3;
    echoed.roundTripUs = i == 0 ? us : std::min(echoed.roundTripUs, us);
  }
  const int64_t start = nowNs();
  for (size_t sent = 0; sent < kStreamBytes; sent += part.size()) {
    if (const Status status = thereAndBack(fd, &part); !status.ok()) {
      return Status(status.code(), cat("messages of 8 bytes pass, of ", kPartBytes, " do not: ", status.message()));
    }
  }
  echoed.GBps = 2.0 * static_cast<double>(kStreamBytes) / static_cast<double>(nowNs() - start);
  return echoed;
}

void echo(int fd) {
  std::vector<char> data(kPartBytes);
  while (true) {
    const ssize_t got = ::recv(fd, data.data(), data.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || !sendAll(fd, data.data(), static_cast<size_t>(got)).ok()) return;
  }
}

}  // namespace tutti::doctor
