#include "src/control/session/socket_network.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/congestion.hpp"
#include "src/base/log.hpp"
#include "src/base/random.hpp"
#include "src/base/tcp_stall.hpp"
#include "src/control/session/socket_options.hpp"

namespace tutti {
namespace {

constexpr int64_t kLingerNs = 2000 * kMs;     // for a peer to take the last words
constexpr int64_t kAcceptPauseNs = 50 * kMs;  // when descriptors have run out

bool isScarce(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

/// The system gives a silent connection up with the last that it has heard of the way there.
Status lost(int error) {
  const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN;
  const std::string text = cat("connection lost: ", std::strerror(error));
  return silent ? timeoutError(ErrorCode::ConnectionSilent, text) : remoteError(ErrorCode::ConnectionLost, text);
}

OwnFd spareDescriptor() { return OwnFd(Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC))); }

}  // namespace

SocketNetwork::SocketNetwork(Reactor& reactor, int64_t silenceMs, std::function<void()> parked)
    : reactor_(reactor), silenceMs_(silenceMs), parked_(std::move(parked)) {}

SocketNetwork::~SocketNetwork() {
  stopListening();
  while (!links_.empty()) erase(links_.begin()->first);
}

int64_t SocketNetwork::nowNs() { return ::tutti::nowNs(); }

void SocketNetwork::randomBytes(std::span<std::byte> out) { fillRandom(out); }

// ---- Listening

Result<SocketAddress> SocketNetwork::listen(const SocketAddress& address) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errnoError(errno, ErrorCode::SocketRefused, cat("cannot open a socket for ", address.text()));
  setOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) setOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  beginUnpaced(fd.get());
  if (::bind(fd.get(), address.raw(), address.bytes) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return errnoError(errno, ErrorCode::SocketRefused, cat("cannot listen on ", address.text()));
  }
  SocketAddress bound;
  bound.bytes = sizeof bound.storage;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes) != 0) {
    return errnoError(errno, ErrorCode::SocketRefused, cat("cannot read the port of ", address.text()));
  }
  if (!spare_.valid()) spare_ = spareDescriptor();
  const size_t index = listeners_.size();
  Listener& listener = listeners_.emplace_back();
  listener.fd = OwnFd(std::move(fd));
  listener.watch = reactor_.add(listener.fd.get(), EPOLLIN, [this, index](uint32_t) { onAcceptable(index); });
  if (listener.watch == 0)
    return errnoError(errno, ErrorCode::NoEpoll, cat("cannot watch the listener on ", address.text()));
  return bound;
}

void SocketNetwork::stopListening() {
  for (Listener& listener : listeners_) reactor_.remove(listener.watch);
  listeners_.clear();
}

void SocketNetwork::onAcceptable(size_t index) {
  if (index >= listeners_.size()) return;
  constexpr int kAtOnce = 128;  // links that are up have their turn, too
  for (int i = 0; i < kAtOnce; ++i) {
    Fd fd(::accept4(listeners_[index].fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      if (isScarce(errno) && machine_->dropStranger()) continue;
      return restFromAccepting(errno);
    }
    tuneSocket(fd.get());
    const LinkId id = ++lastLink_;
    Link& link = *(links_[id] = std::make_unique<Link>());
    link.fd = OwnFd(std::move(fd));
    if (!watch(id, link)) {
      erase(id);
      continue;
    }
    machine_->onAccepted(id);
    if (index >= listeners_.size()) return;
  }
}

/// Nobody who could give way is linked with us: the queue must not be left to strangers, so its first ones are turned
/// away.  A rank among them dials again.
void SocketNetwork::restFromAccepting(int error) {
  constexpr int kTurnedAway = 16;
  int turnedAway = 0;
  for (Listener& listener : listeners_) {
    for (int i = 0; i < kTurnedAway && isScarce(error) && spare_.valid(); ++i) {
      spare_.reset();
      const Fd unwanted(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!unwanted.valid()) break;
      ++turnedAway;
      spare_ = spareDescriptor();
    }
    if (!spare_.valid()) spare_ = spareDescriptor();
    reactor_.modify(listener.watch, 0);
  }
  acceptAgainNs_ = nowNs() + kAcceptPauseNs;
  if (const uint64_t times = refusals_.due(nowNs()); times != 0) {
    TUTTI_WARN("bootstrap", "cannot accept a connection: ", std::strerror(error), "; ", turnedAway,
               " were turned away, and it is tried again (", times, " times now; raise `ulimit -n`, or see who dials)");
  }
}

// Heartbeats go every second, and the system acknowledges them for a process that is stopped: where it does not for so
// long, the host is gone.
void SocketNetwork::tuneSocket(int fd) const { tuneControlSocket(fd, silenceMs_); }

// ---- Links

SocketNetwork::Link* SocketNetwork::find(LinkId id) {
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : found->second.get();
}

void SocketNetwork::erase(LinkId id) {
  Link* link = find(id);
  if (link == nullptr) return;
  dropAttempts(*link);
  reactor_.remove(link->watch);
  setTimer(id, *link, kNoTimer);
  lingering_.erase(id);
  links_.erase(id);
}

void SocketNetwork::setTimer(LinkId id, Link& link, int64_t ns) {
  if (link.timerNs != kNoTimer) timers_.erase({link.timerNs, id});
  link.timerNs = ns;
  if (ns != kNoTimer) timers_.insert({ns, id});
}

uint32_t SocketNetwork::eventsOf(const Link& link) const {
  const uint32_t write = link.outDone < link.out.size() ? uint32_t{EPOLLOUT} : 0;
  switch (link.state) {
    case State::Dialing: return 0;  // its attempts are watched
    case State::Open: return EPOLLIN | write;
    case State::HandingOver: return write;  // what arrives now belongs to the stream's next owner
    case State::Flushing: return write;
    case State::Draining: return EPOLLIN;
  }
  return 0;
}

bool SocketNetwork::watch(LinkId id, Link& link) {
  link.watch = reactor_.add(link.fd.get(), eventsOf(link), [this, id](uint32_t events) { onLinkEvent(id, events); });
  return link.watch != 0;
}

void SocketNetwork::onLinkEvent(LinkId id, uint32_t events) {
  Link* link = find(id);
  if (link == nullptr) return;
  if (link->state == State::Draining) return drain(id, *link);
  if ((events & EPOLLOUT) != 0 || link->state != State::Open) {
    flush(*link);
    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && link->state != State::Open) {
      link->out.clear();
      link->outDone = 0;
    }
    afterFlush(id, *link);
  }
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) readMessages(id);
}

void SocketNetwork::readMessages(LinkId id) {
  // The machine may close any link or hand it over from within onMessage, so look it up after every message.
  for (int messages = 0; messages < 64;) {
    Link* link = find(id);
    if (link == nullptr || link->state != State::Open) return;
    link->reader.setLimit(machine_->messageLimit(id));
    const std::span<char> room = link->reader.room();
    const ssize_t n = ::recv(link->fd.get(), room.data(), room.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return fail(id, lost(errno));
    // A reset that a send has met.  Behind an orderly end it would have met EPIPE.
    if (n == 0 && link->sendError != 0 && link->sendError != EPIPE) return fail(id, lost(link->sendError));
    if (n == 0) return fail(id, remoteError(ErrorCode::PeerClosed, kClosedByPeer));
    if (const Status s = link->reader.advance(static_cast<size_t>(n)); !s.ok()) return fail(id, s);
    if (!link->reader.complete()) continue;
    ++messages;
    const std::string message(link->reader.message());
    link->reader.next();
    machine_->onMessage(id, message);
  }
}

void SocketNetwork::fail(LinkId id, const Status& why) {
  erase(id);
  machine_->onClosed(id, why);
}

void SocketNetwork::send(LinkId id, std::string_view message) {
  Link* link = find(id);
  if (link == nullptr || link->state > State::Open) return;
  if (message.size() > kMaxMessageBytes) {
    // The peer would cut the link off; say so here, where the reason is known.
    failed_.emplace_back(
        id, internalError(ErrorCode::MessageTooLarge, "a message of ", message.size(), " bytes is too large to send"));
    reactor_.wake();
    return;
  }
  appendFrame(&link->out, message);
  if (link->state != State::Open) return;  // goes out when the dial is done
  flush(*link);
  reactor_.modify(link->watch, eventsOf(*link));
}

void SocketNetwork::flush(Link& link) {
  while (link.outDone < link.out.size()) {
    const ssize_t n = ::send(link.fd.get(), link.out.data() + link.outDone, link.out.size() - link.outDone,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      // The reading side reports it, behind whatever the peer still said.
      link.sendError = errno;
      link.outDone = link.out.size();
      break;
    }
    link.outDone += static_cast<size_t>(n);
  }
  if (link.outDone == link.out.size()) {
    link.out.clear();
    link.outDone = 0;
  }
}

/// What was waiting for the queue to be empty.
void SocketNetwork::afterFlush(LinkId id, Link& link) {
  const bool empty = link.out.empty();
  if (empty && link.state == State::HandingOver) return park(id, link);
  if (empty && link.state == State::Flushing) {
    // Closing with unread bytes would reset the connection and take our last words with it: end our direction, then
    // read until the peer ends its own.
    ::shutdown(link.fd.get(), SHUT_WR);
    link.state = State::Draining;
  }
  reactor_.modify(link.watch, eventsOf(link));
}

void SocketNetwork::drain(LinkId id, Link& link) {
  char ignored[4096];
  for (int rounds = 0; rounds < 64; ++rounds) {
    const ssize_t n = ::recv(link.fd.get(), ignored, sizeof ignored, 0);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n < 0 && errno == EAGAIN) return;
    return erase(id);
  }
}

void SocketNetwork::close(LinkId id) {
  Link* link = find(id);
  if (link == nullptr || link->state > State::Open) return;
  if (link->state != State::Open) return erase(id);
  link->state = State::Flushing;
  lingering_.insert(id);
  setTimer(id, *link, nowNs() + kLingerNs);
  flush(*link);
  afterFlush(id, *link);
}

void SocketNetwork::drop(LinkId id) { erase(id); }

bool SocketNetwork::silent(LinkId id) {
  const Link* link = find(id);
  return link != nullptr && link->fd.valid() && tcpSilentMs(link->fd.get()).has_value();
}

// Most descriptors are the job's, whoever dials; a process may have several Sessions.
size_t SocketNetwork::mostStrangers() const {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMaxStrangers;
  return std::clamp(static_cast<size_t>(limit.rlim_cur) / 4, size_t{8}, kMaxStrangers);
}

void SocketNetwork::handOver(LinkId id, const std::string& streamKey, const DirectionKeys& keys) {
  Link* link = find(id);
  if (link == nullptr || link->state != State::Open) return;
  link->state = State::HandingOver;
  link->streamKey = streamKey;
  link->keys = keys;
  lingering_.insert(id);
  flush(*link);
  afterFlush(id, *link);
}

void SocketNetwork::park(LinkId id, Link& link) {
  reactor_.remove(link.watch);
  link.watch = 0;
  // Its new owner has deadlines of its own, and may rightly leave bytes unread for long.
  setOption(link.fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
  parkedStreams_[link.streamKey] = {std::move(link.fd), link.keys};
  erase(id);
  parked_();
}

SocketNetwork::Stream SocketNetwork::takeStream(const std::string& key) {
  const auto found = parkedStreams_.find(key);
  if (found == parkedStreams_.end()) return {};
  Stream stream{found->second.fd.release(), found->second.keys};
  parkedStreams_.erase(found);
  return stream;
}

void SocketNetwork::dropStreams(const std::string& keyPrefix) {
  auto it = parkedStreams_.lower_bound(keyPrefix);
  while (it != parkedStreams_.end() && it->first.starts_with(keyPrefix)) it = parkedStreams_.erase(it);
}

// ---- Timers and deferred events

int64_t SocketNetwork::nextTimerNs() const {
  if (!failed_.empty()) return 0;
  return std::min(acceptAgainNs_, timers_.empty() ? kNoTimer : timers_.begin()->first);
}

void SocketNetwork::onTimer() {
  const int64_t now = nowNs();
  if (acceptAgainNs_ <= now) {
    acceptAgainNs_ = kNoTimer;
    for (Listener& listener : listeners_) reactor_.modify(listener.watch, EPOLLIN);
  }
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const LinkId id = timers_.begin()->second;
    Link& link = *find(id);
    setTimer(id, link, kNoTimer);
    switch (link.state) {
      case State::Dialing: tryNext(id, link); break;
      default: erase(id); break;  // lingered long enough
    }
  }
}

void SocketNetwork::deliver() {
  while (!failed_.empty()) {
    const auto [id, why] = failed_.front();
    failed_.pop_front();
    if (find(id) != nullptr) fail(id, why);
  }
}

}  // namespace tutti
