// Dialing: the addresses of a control address, each a bit after the one before, until one answers.  An interface that
// leads nowhere costs that bit, and not the time in which it might have answered.
#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/congestion.hpp"
#include "src/control/session/socket_network.hpp"

namespace tutti {
namespace {

constexpr int64_t kNextCandidateNs = 250 * kMs;  // as RFC 8305 has it

/// TCP lets a socket that dials a port nobody listens on meet itself when the system picks that very port for it.
bool connectedToItself(int fd) {
  SocketAddress self, peer;
  self.bytes = peer.bytes = sizeof(sockaddr_storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&self.storage), &self.bytes) != 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.bytes) != 0) return false;
  return self == peer;
}

}  // namespace

LinkId SocketNetwork::dial(const ControlAddress& to) {
  const LinkId id = ++lastLink_;
  Link& link = *(links_[id] = std::make_unique<Link>());
  link.state = State::Dialing;
  Result<std::vector<SocketAddress>> candidates = parseControlAddress(to);
  if (candidates.ok()) {
    link.candidates = std::move(candidates).value();
    tryNext(id, link);
  } else {
    failed_.emplace_back(id, candidates.status());
    reactor_.wake();
  }
  return id;
}

/// Begin with the next address that does not fail at once.  Whoever dialed gives up where none answers.
void SocketNetwork::tryNext(LinkId id, Link& link) {
  setTimer(id, link, kNoTimer);
  while (link.candidate < link.candidates.size()) {
    if (!beginConnect(id, link, link.candidate++)) continue;
    if (link.candidate < link.candidates.size()) setTimer(id, link, nowNs() + kNextCandidateNs);
    return;
  }
  if (!link.attempts.empty()) return;
  const bool refused = link.refusals > 0 && link.otherProblems == 0;
  failed_.emplace_back(
      id, remoteError(ErrorCode::CannotReach, refused ? kNobodyListens : "cannot connect to ", link.problems));
  reactor_.wake();
}

void SocketNetwork::addProblem(Link& link, const SocketAddress& to, int error) {
  link.problems += cat(link.problems.empty() ? "" : "; ", to.text(), ": ", std::strerror(error));
  // An address of a family that this host lacks says nothing of the other one.
  if (error == EADDRNOTAVAIL || error == ENETUNREACH || error == EAFNOSUPPORT) return;
  ++(error == ECONNREFUSED ? link.refusals : link.otherProblems);
}

bool SocketNetwork::beginConnect(LinkId id, Link& link, size_t candidate) {
  const SocketAddress& to = link.candidates[candidate];
  OwnFd fd(Fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  if (fd.valid()) {
    tuneSocket(fd.get());
    beginUnpaced(fd.get());
    if (::connect(fd.get(), to.raw(), to.bytes) == 0 || errno == EINPROGRESS) {
      const Reactor::Id watched =
          reactor_.add(fd.get(), EPOLLOUT, [this, id, candidate](uint32_t) { attemptDone(id, candidate); });
      if (watched != 0) {
        link.attempts.push_back({candidate, std::move(fd), watched});
        return true;
      }
    }
  }
  addProblem(link, to, errno);
  return false;
}

void SocketNetwork::attemptDone(LinkId id, size_t candidate) {
  Link& link = *find(id);
  const auto attempt = std::find_if(link.attempts.begin(), link.attempts.end(),
                                    [&](const Attempt& a) { return a.candidate == candidate; });
  OwnFd fd = std::move(attempt->fd);
  reactor_.remove(attempt->watch);
  link.attempts.erase(attempt);
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error == 0 && connectedToItself(fd.get())) error = ECONNREFUSED;
  if (error != 0) {
    addProblem(link, link.candidates[candidate], error);
    return tryNext(id, link);
  }
  dropAttempts(link);
  setTimer(id, link, kNoTimer);
  link.fd = std::move(fd);
  link.state = State::Open;
  link.problems.clear();
  flush(link);
  if (!watch(id, link)) return fail(id, errnoError(errno, ErrorCode::NoEpoll, "cannot watch a connection"));
  machine_->onConnected(id);
}

void SocketNetwork::dropAttempts(Link& link) {
  for (const Attempt& attempt : link.attempts) reactor_.remove(attempt.watch);
  link.attempts.clear();
}

}  // namespace tutti
