// Dialing: the addresses of a control address in turn until one answers.
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

constexpr int64_t kCandidateNs = 2000 * kMs;  // for an address that does not answer, while there are others to try
constexpr int64_t kLastCandidateNs = 20'000 * kMs;

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
    tryCandidates(id, link);
  } else {
    failed_.emplace_back(id, candidates.status());
    reactor_.wake();
  }
  return id;
}

/// Begin with the first address that does not fail at once.
void SocketNetwork::tryCandidates(LinkId id, Link& link) {
  while (link.candidate < link.candidates.size()) {
    const SocketAddress& to = link.candidates[link.candidate];
    std::string problem;
    if (beginConnect(id, link, to, &problem)) return;
    link.problems += cat(link.problems.empty() ? "" : "; ", to.text(), ": ", problem);
    ++link.candidate;
  }
  failed_.emplace_back(id, remoteError("cannot connect to ", link.problems));
  reactor_.wake();
}

bool SocketNetwork::beginConnect(LinkId id, Link& link, const SocketAddress& to, std::string* problem) {
  link.fd = OwnFd(Fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  if (link.fd.valid()) {
    tuneSocket(link.fd.get());
    beginUnpaced(link.fd.get());
    const int connected = ::connect(link.fd.get(), to.raw(), to.bytes);
    if ((connected == 0 || errno == EINPROGRESS) && watch(id, link)) {
      const bool last = link.candidate + 1 == link.candidates.size();
      setTimer(id, link, nowNs() + (last ? kLastCandidateNs : kCandidateNs));
      return true;
    }
  }
  *problem = std::strerror(errno);
  link.fd.reset();
  return false;
}

void SocketNetwork::connectDone(LinkId id, Link& link) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(link.fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error == 0 && connectedToItself(link.fd.get())) error = ECONNREFUSED;
  if (error != 0) return candidateFailed(id, link, std::strerror(error));
  setTimer(id, link, kNoTimer);
  link.state = State::Open;
  link.problems.clear();
  flush(link);
  reactor_.modify(link.watch, eventsOf(link));
  machine_->onConnected(id);
}

void SocketNetwork::candidateFailed(LinkId id, Link& link, const std::string& problem) {
  const SocketAddress& to = link.candidates[link.candidate];
  link.problems += cat(link.problems.empty() ? "" : "; ", to.text(), ": ", problem);
  reactor_.remove(link.watch);
  link.watch = 0;
  setTimer(id, link, kNoTimer);
  link.fd.reset();
  ++link.candidate;
  tryCandidates(id, link);
}

}  // namespace tutti
