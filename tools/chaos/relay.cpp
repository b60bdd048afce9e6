#include "tools/chaos/relay.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/clock.hpp"
#include "src/control/session/frame.hpp"

namespace tutti::chaos {
namespace {

constexpr size_t kMostHeldBytes = 4 << 20;  // of one direction, beyond which its source has to wait
constexpr size_t kMostHelloBytes = 4096;
constexpr int kOriginalDestination = 80;  // SO_ORIGINAL_DST of linux/netfilter_ipv4.h, and of IPv6
constexpr std::pair<std::string_view, Purpose> kPurposes[] = {
    {"rendezvous", Purpose::Meet}, {"overlay", Purpose::Overlay},     {"stream", Purpose::Stream},
    {"summon", Purpose::Summon},   {"agreement", Purpose::Agreement}, {"recall", Purpose::Recall}};

std::string nameOf(Purpose purpose) {
  for (const auto& [name, p] : kPurposes) {
    if (p == purpose) return std::string(name);
  }
  return "unknown";
}

void setOption(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

/// The next close() of it is a reset.
void resetOnClose(int fd) {
  const linger at{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at, sizeof at);
}

}  // namespace

Result<Purpose> parsePurpose(std::string_view text) {
  std::string all;
  for (const auto& [name, purpose] : kPurposes) {
    if (name == text) return purpose;
    all += cat(all.empty() ? "" : ", ", name);
  }
  return invalidArgument("'", text, "' is no kind of connection; these are: ", all);
}

struct Relay::Connection {
  uint64_t number = 0;
  std::array<Fd, 2> ends;  // the dialer's and the target's; direction d goes from ends[d] to ends[1 - d]
  std::string name;        // addresses, and what it is for
  bool connecting = true;
  bool known = false;  // what it is for
  bool dropped = false;
  std::vector<std::byte> head;  // until then
  FrameReader hello;
  std::optional<Purpose> purpose;
  std::array<std::unique_ptr<Course>, 2> courses;
  std::array<bool, 2> ended{};   // no more comes in this direction
  std::array<bool, 2> closed{};  // and the reader was told
  std::array<short, 2> wants{};  // of poll()
};

Relay::Relay(RelayOptions options) : options_(std::move(options)) {}
Relay::~Relay() = default;

Result<std::unique_ptr<Relay>> Relay::open(RelayOptions options) {
  std::unique_ptr<Relay> relay(new Relay(std::move(options)));
  const SocketAddress& at = relay->options_.listen;
  relay->listener_ = Fd(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int fd = relay->listener_.get();
  if (fd < 0) return errnoError(errno, cat("cannot open a socket for ", at.text()));
  setOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd, at.raw(), at.bytes) != 0 || ::listen(fd, SOMAXCONN) != 0) {
    return errnoError(errno, cat("cannot listen on ", at.text()));
  }
  relay->address_.bytes = sizeof relay->address_.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&relay->address_.storage), &relay->address_.bytes) != 0) {
    return errnoError(errno, cat("cannot read the port of ", at.text()));
  }
  return relay;
}

// ---- The loop

Status Relay::run() {
  std::vector<pollfd> fds;
  int64_t servedNs = 0;  // what has become due since then has not been looked at
  while (!quit_) {
    fds.clear();
    fds.push_back({listener_.get(), static_cast<short>(cut_ ? 0 : POLLIN), 0});
    for (const int fd : options_.commands) fds.push_back({fd, POLLIN, 0});
    const size_t firstEnd = fds.size();
    const int64_t begin = nowNs();
    int64_t next = Course::kNever;
    for (const auto& [number, c] : connections_) {
      for (const int end : {0, 1}) {
        fds.push_back({cut_ || c->wants[end] == 0 ? -1 : c->ends[end].get(), c->wants[end], 0});
        if (!cut_ && c->courses[end] != nullptr) next = std::min(next, c->courses[end]->nextNs(servedNs));
      }
    }
    const int64_t wait = next == Course::kNever ? -1 : next <= begin ? 0 : (next - begin) / kMs + 1;
    if (::poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(wait, 1 << 30))) < 0 && errno != EINTR) {
      return errnoError(errno, "poll failed");
    }
    for (size_t i = 1; i < firstEnd; ++i) {
      if (fds[i].revents != 0) readCommands(fds[i].fd);
    }
    if (cut_) continue;
    servedNs = nowNs();
    for (const auto& [number, c] : connections_) serve(*c, servedNs);
    if (fds[0].revents != 0) acceptAll();
    std::erase_if(connections_, [](const auto& c) { return c.second->dropped; });
  }
  return {};
}

void Relay::readCommands(int fd) {
  char bytes[256];
  const ssize_t n = ::read(fd, bytes, sizeof bytes);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) {
    std::erase(options_.commands, fd);  // nobody commands any more
    return;
  }
  std::string& line = lines_[fd];
  for (const char byte : std::string_view(bytes, static_cast<size_t>(n))) {
    if (byte != '\n') {
      line += byte;
      continue;
    }
    if (const Status status = command(std::exchange(line, "")); !status.ok()) say(status.message());
  }
}

Status Relay::command(std::string_view line) {
  if (line.empty()) return {};
  if (line == "cut") {
    cut_ = true;
  } else if (line == "heal") {
    cut_ = refuse_ = false;
  } else if (line == "refuse") {
    refuse_ = true;
  } else if (line == "quit") {
    quit_ = true;
  } else if (line == "reset" || line == "close") {
    for (const auto& [number, c] : connections_) {
      if (!concerns(*c)) continue;
      if (line == "reset") drop(*c, "reset by command");
      if (line == "close" && c->courses[0] != nullptr) c->courses[0]->finish(nowNs());
    }
    std::erase_if(connections_, [](const auto& c) { return c.second->dropped; });
  } else {
    return invalidArgument("'", line, "' is no command; these are: cut, heal, reset, close, refuse, quit");
  }
  say(cat("command: ", line));
  return {};
}

bool Relay::concerns(const Connection& c) const {
  return options_.only.empty() || (c.purpose && options_.only.contains(*c.purpose));
}

// ---- Connections

void Relay::acceptAll() {
  for (;;) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) return;
    SocketAddress from;
    from.bytes = sizeof from.storage;
    getpeername(fd.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes);
    auto made = std::make_unique<Connection>();
    Connection& c = *made;
    c.number = ++last_;
    c.ends[0] = std::move(fd);
    const Result<SocketAddress> target = targetOf(c.ends[0].get());
    c.name = cat(from.text(), " -> ", target.ok() ? target->text() : "nowhere");
    if (refuse_) {
      drop(c, "refused");
    } else if (!target.ok()) {
      drop(c, target.status().message());
    } else {
      connect(c, *target);
    }
    if (!c.dropped) connections_.emplace(c.number, std::move(made));
  }
}

Result<SocketAddress> Relay::targetOf(int fd) const {
  if (options_.to) return *options_.to;
  SocketAddress target;
  target.bytes = sizeof target.storage;
  const bool v6 = address_.family() == AF_INET6;
  const int level = v6 ? int{IPPROTO_IPV6} : int{IPPROTO_IP};
  SocketAddress here;
  here.bytes = sizeof here.storage;
  const bool known = getsockopt(fd, level, kOriginalDestination, &target.storage, &target.bytes) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes) == 0;
  if (known && !(target == here)) return target;
  return invalidUsage(
      "nothing has redirected it to here: without --to, connections must come by a rule such as "
      "nft's 'tcp dport 1024-65535 redirect to :",
      address_.port(), "'");
}

void Relay::connect(Connection& c, const SocketAddress& target) {
  c.ends[1] = Fd(::socket(target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int fd = c.ends[1].get();
  if (fd < 0) return drop(c, cat("no socket: ", std::strerror(errno)));
  for (const Fd& end : c.ends) setOption(end.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (::connect(fd, target.raw(), target.bytes) != 0 && errno != EINPROGRESS) {
    return drop(c, cat("cannot go on: ", std::strerror(errno)));
  }
  c.wants = {0, POLLOUT};
  if (options_.only.empty()) begin(c);
}

/// What it is for is known, or does not matter.
void Relay::begin(Connection& c) {
  c.known = true;
  if (c.purpose) c.name += cat(", ", nameOf(*c.purpose));
  const bool bad = concerns(c);
  for (const int direction : {0, 1}) {
    c.courses[direction] = std::make_unique<Course>(bad ? options_.misdeeds : Misdeeds(), c.number, direction);
    if (options_.most > 0 && done_ >= options_.most) c.courses[direction]->behave();
  }
  say(cat("connection ", c.number, " (", c.name, "): ", bad ? options_.misdeeds.text() : "left alone"));
}

/// Its first message says what a connection of Tutti's is for; until it is whole nothing goes on.
void Relay::classify(Connection& c, std::span<const std::byte> bytes, int64_t now) {
  c.head.insert(c.head.end(), bytes.begin(), bytes.end());
  c.hello = FrameReader();
  c.hello.setLimit(kMostHelloBytes);
  std::span<const std::byte> left = c.head;
  bool whole = c.ended[0];
  while (!left.empty() && !c.hello.complete()) {
    const std::span<char> room = c.hello.room();
    const size_t n = std::min(room.size(), left.size());
    std::memcpy(room.data(), left.data(), n);
    if (!c.hello.advance(n).ok()) {
      whole = true;
      break;
    }
    left = left.subspan(n);
  }
  if (!whole && c.hello.complete()) {
    whole = true;
    if (const Result<Hello> hello = AcceptorProof::readHello(c.hello.message()); hello.ok()) c.purpose = hello->purpose;
  }
  if (!whole) return;
  begin(c);
  c.courses[0]->put(std::exchange(c.head, {}), now);
}

void Relay::serve(Connection& c, int64_t now) {
  if (c.dropped) return;
  if (c.connecting) {
    pollfd one{c.ends[1].get(), POLLOUT, 0};
    if (::poll(&one, 1, 0) <= 0) return;
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(one.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return drop(c, cat("cannot go on: ", std::strerror(error)));
    c.connecting = false;
  }
  c.wants = {0, 0};
  for (const int direction : {0, 1}) {
    if (!c.dropped) read(c, direction, now);
    if (!c.dropped && c.known) write(c, direction, now);
  }
  if (c.closed[0] && c.closed[1] && !c.dropped) {
    say(cat("connection ", c.number, ": ended by both ends"));
    c.dropped = true;
  }
}

void Relay::read(Connection& c, int direction, int64_t now) {
  if (c.ended[direction] || (direction == 1 && !c.known)) return;
  std::byte bytes[64 << 10];
  while (!c.known || c.courses[direction]->held() < kMostHeldBytes) {
    const ssize_t n = ::recv(c.ends[direction].get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      c.wants[direction] |= POLLIN;
      return;
    }
    if (n < 0) return drop(c, cat(direction == 0 ? "its dialer: " : "its target: ", std::strerror(errno)));
    c.ended[direction] = n == 0;
    if (!c.known) {
      classify(c, std::span(bytes, static_cast<size_t>(n)), now);
    } else if (n > 0) {
      c.courses[direction]->put(std::span(bytes, static_cast<size_t>(n)), now);
    }
    if (c.known) report(c, direction);
    if (n == 0) return c.courses[direction]->finish(now);
  }
}

void Relay::report(Connection& c, int direction) {
  for (const Deed& deed : c.courses[direction]->takeDeeds()) {
    say(cat("connection ", c.number, direction == 0 ? " forward " : " back ", deed.text()));
    if (deed.kind == DeedKind::Stall || options_.most == 0 || ++done_ != options_.most) continue;
    say(cat("that was the last of ", options_.most));
    for (const auto& [number, other] : connections_) {
      for (const auto& course : other->courses) {
        if (course != nullptr) course->behave();
      }
    }
  }
}

void Relay::write(Connection& c, int direction, int64_t now) {
  Course& course = *c.courses[direction];
  const int to = c.ends[1 - direction].get();
  for (std::span<const std::byte> piece = course.due(now); !piece.empty(); piece = course.due(now)) {
    const ssize_t n = ::send(to, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      c.wants[1 - direction] |= POLLOUT;
      return;
    }
    if (n < 0) return drop(c, cat(direction == 0 ? "its target: " : "its dialer: ", std::strerror(errno)));
    course.taken(static_cast<size_t>(n));
  }
  const Course::End end = course.end(now);
  if (end == Course::End::Reset) return drop(c, "reset");
  if (end == Course::End::Closed && !c.closed[direction]) {
    c.closed[direction] = true;
    ::shutdown(to, SHUT_WR);
  }
}

/// Both ends see a reset.
void Relay::drop(Connection& c, const std::string& why) {
  say(cat("connection ", c.number, " (", c.name, "): ", why));
  for (Fd& end : c.ends) {
    if (end.valid()) resetOnClose(end.get());
    end.reset();
  }
  c.dropped = true;
}

}  // namespace tutti::chaos
