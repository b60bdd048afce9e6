#include "src/net_plugin/meeting.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/config.hpp"
#include "src/base/congestion.hpp"
#include "src/base/log.hpp"
#include "src/base/random.hpp"
#include "src/control/session/interfaces.hpp"
#include "src/control/session/socket_options.hpp"

namespace tutti::net_plugin {
namespace {

constexpr int kDialer = 0, kAcceptor = 1;

void tune(int fd) {
  const Result<int64_t> timeoutMs = configInteger("TUTTI_TIMEOUT_MS");
  tuneControlSocket(fd, timeoutMs.ok() ? *timeoutMs : 0);
}

Result<Fd> connecting(const SocketAddress& to) {
  Fd fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errnoError(errno, ErrorCode::SocketRefused, "cannot open a socket");
  tune(fd.get());
  beginUnpaced(fd.get());
  if (::connect(fd.get(), to.raw(), to.bytes) == 0 || errno == EINPROGRESS) return fd;
  return remoteError(ErrorCode::CannotReach, "cannot connect: ", std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<Dial>> Dial::begin(const Handle& handle) {
  TUTTI_ASSIGN(std::vector<SocketAddress> addresses, parseControlAddress(handle.addresses));
  TUTTI_TRY(seedRandom());
  std::unique_ptr<Dial> dial(new Dial(handle, std::move(addresses)));
  TUTTI_TRY(dial->tryNext());
  return dial;
}

/// All sockets to the next address, or to one behind it where that fails at once.
Status Dial::tryNext() {
  greetings_.clear();
  while (next_ < addresses_.size()) {
    const SocketAddress& to = addresses_[next_++];
    Hello hello;
    hello.purpose = Purpose::Stream;
    hello.commId = randomBytes<CommId>();
    hello.dialer = kDialer;
    hello.acceptor = kAcceptor;
    hello.nRanks = 2;
    Status status;
    for (uint32_t i = 0; status.ok() && i < handle_.nSockets; ++i) {
      hello.index = static_cast<int>(i);
      Result<Fd> fd = connecting(to);
      status = fd.status();
      if (fd.ok()) greetings_.emplace_back(std::move(*fd), handle_.secret, hello, randomBytes<Nonce>());
    }
    if (status.ok()) return {};
    problems_ += cat(problems_.empty() ? "" : "; ", to.text(), ": ", status.message());
    greetings_.clear();
  }
  return remoteError(ErrorCode::CannotReach, "no connection to ", problems_,
                     "; TUTTI_SOCKET_IFNAME names the interfaces to use");
}

Status Dial::failed(const Status& why) {
  problems_ += cat(problems_.empty() ? "" : "; ", addresses_[next_ - 1].text(), ": ", why.message());
  return tryNext();
}

Result<std::optional<Sockets>> Dial::poll() {
  bool all = true;
  for (DialerGreeting& greeting : greetings_) {
    const Result<bool> proven = greeting.poll();
    if (!proven.ok()) {
      TUTTI_TRY(failed(proven.status()));
      return std::optional<Sockets>();
    }
    all = all && *proven;
  }
  if (!all) return std::optional<Sockets>();
  Sockets sockets{.fds = {}, .peer = addresses_[next_ - 1].text()};
  for (DialerGreeting& greeting : greetings_) sockets.fds.push_back(greeting.take());
  return std::optional(std::move(sockets));
}

Result<std::unique_ptr<Listener>> Listener::begin(const Handle& wanted) {
  TUTTI_TRY(seedRandom());
  std::unique_ptr<Listener> listener(new Listener(wanted));
  TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, listenAddresses());
  for (const SocketAddress& address : addresses) TUTTI_TRY(listener->listenOn(address));
  listener->handle_.secret = Secret::random();
  listener->handle_.addresses = makeControlAddress(listener->bound_, kControlAddressMostBytes);
  return listener;
}

Status Listener::listenOn(const SocketAddress& address) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errnoError(errno, ErrorCode::SocketRefused, cat("cannot open a socket for ", address.text()));
  if (address.family() == AF_INET6) setOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  beginUnpaced(fd.get());
  if (::bind(fd.get(), address.raw(), address.bytes) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return errnoError(errno, ErrorCode::SocketRefused, cat("cannot listen on ", address.text()));
  SocketAddress bound;
  bound.bytes = sizeof bound.storage;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes) != 0)
    return errnoError(errno, ErrorCode::SocketRefused, cat("cannot read the port of ", address.text()));
  bound_.push_back(bound);
  listeners_.push_back(std::move(fd));
  return {};
}

std::optional<Sockets> Listener::poll() {
  acceptAll();
  greetAll();
  if (ready_.empty()) return std::nullopt;
  Sockets next = std::move(ready_.front());
  ready_.pop_front();
  return next;
}

void Listener::acceptAll() {
  for (const Fd& listener : listeners_) {
    for (;;) {
      SocketAddress from;
      from.bytes = sizeof from.storage;
      Fd fd(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes,
                      SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) break;  // nobody, or no descriptors: the next call looks again
      tune(fd.get());
      if (strangers_.size() >= kMostStrangers) strangers_.pop_front();
      strangers_.push_back({AcceptorGreeting(std::move(fd), handle_.secret, randomBytes<Nonce>()), from.text(),
                            Deadline::at(nowNs() + kStrangerNs)});
    }
  }
}

void Listener::greetAll() {
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const Result<bool> proven = stranger->greeting.poll();
    if (!proven.ok()) TUTTI_DEBUG("net_plugin", stranger->peer, ": ", proven.status().message());
    if (proven.ok() && *proven) file(&*stranger);
    const bool over = !proven.ok() || *proven || stranger->deadline.passed();
    stranger = over ? strangers_.erase(stranger) : std::next(stranger);
  }
}

void Listener::file(Stranger* proven) {
  const Hello& hello = proven->greeting.hello();
  const auto index = static_cast<size_t>(hello.index);
  if (hello.purpose != Purpose::Stream || hello.index < 0 || index >= handle_.nSockets) return;
  Sockets& sockets = parts_[hello.commId];
  sockets.fds.resize(handle_.nSockets);
  sockets.fds[index] = proven->greeting.take();
  sockets.peer = proven->peer;
  if (!std::ranges::all_of(sockets.fds, &Fd::valid)) return;
  ready_.push_back(std::move(sockets));
  parts_.erase(hello.commId);
}

}  // namespace tutti::net_plugin
