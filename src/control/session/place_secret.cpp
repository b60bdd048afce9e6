#include "src/control/session/place_secret.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/log.hpp"
#include "src/control/overdue.hpp"
#include "src/control/session/fd_wire.hpp"

namespace tutti {
namespace {

constexpr int64_t kAcceptAgainNs = 50 * kMs;  // when descriptors have run out
constexpr int kAskAgainMs = 5;                // between two looks whether somebody serves
constexpr int kAnswerMs = 2000;               // of a server that has taken the connection
constexpr char kTold = 0, kNotTold = 1;
using Answer = std::array<char, 1 + Secret::kBytes>;

std::string socketOfPlace(const CommId& commId) {
  return cat("tutti-place-", geteuid(), "-", toHex(commId.data(), commId.size()));
}

Result<Fd> connectToPlace(const std::string& name) {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errnoError(errno, ErrorCode::SocketRefused, "cannot open a Unix socket");
  const timeval patience{kAnswerMs / 1000, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_un address;
  const socklen_t bytes = fdwire::abstractAddress(name, &address);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) return Fd();
  if (!fdwire::sameUser(fd.get())) {
    return systemError(ErrorCode::AddressInUse, "the abstract Unix socket ", name, ", where ranks of user ", geteuid(),
                       " get their secret, belongs to another user; set TUTTI_SECRET alike on all ranks");
  }
  return fd;
}

/// The secret, or an empty one: ask again.
Result<Secret> askForSecret(int fd, const std::string& where) {
  Answer answer{};
  const ssize_t n = ::recv(fd, answer.data(), answer.size(), 0);
  if (n >= 1 && answer[0] == kNotTold) {
    return invalidUsage(ErrorCode::SecretDiffers, "the rendezvous at ", where,
                        " has a secret by TUTTI_SECRET, which this rank lacks; set TUTTI_SECRET alike on all ranks");
  }
  if (n != ssize_t{answer.size()}) return Secret();
  Secret::Raw raw;
  std::memcpy(raw.data(), answer.data() + 1, raw.size());
  const Secret secret(raw);
  wipe(raw);
  wipe(answer);
  return secret;
}

}  // namespace

Result<std::unique_ptr<PlaceSecretServer>> PlaceSecretServer::create(Reactor& reactor, const CommId& commId,
                                                                     Secret secret) {
  std::unique_ptr<PlaceSecretServer> server(new PlaceSecretServer(reactor, std::move(secret)));
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errnoError(errno, ErrorCode::SocketRefused, "cannot open a Unix socket");
  const std::string name = socketOfPlace(commId);
  sockaddr_un address;
  const socklen_t bytes = fdwire::abstractAddress(name, &address);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return errnoError(errno, ErrorCode::SocketRefused, cat("cannot listen on the abstract Unix socket ", name));
  }
  server->listener_ = OwnFd(std::move(fd));
  PlaceSecretServer* self = server.get();
  server->watch_ = reactor.add(server->listener_.get(), EPOLLIN, [self](uint32_t) { self->onAcceptable(); });
  if (server->watch_ == 0) return errnoError(errno, ErrorCode::NoEpoll, "cannot watch a Unix socket");
  return server;
}

PlaceSecretServer::~PlaceSecretServer() { reactor_.remove(watch_); }

void PlaceSecretServer::onAcceptable() {
  for (;;) {
    const Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      reactor_.modify(watch_, 0);
      acceptAgainNs_ = nowNs() + kAcceptAgainNs;
      return;
    }
    if (!fdwire::sameUser(fd.get())) {
      TUTTI_WARN("bootstrap", "a process of another user asked for the secret of this job, and did not get it");
      continue;
    }
    Answer answer{secret_.empty() ? kNotTold : kTold};
    std::memcpy(answer.data() + 1, secret_.data(), Secret::kBytes);
    (void)::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    wipe(answer);
  }
}

void PlaceSecretServer::onTimer() {
  if (acceptAgainNs_ > nowNs()) return;
  acceptAgainNs_ = kNoTimer;
  reactor_.modify(watch_, EPOLLIN);
}

Result<Secret> fetchPlaceSecret(const CommId& commId, const std::string& where, Deadline deadline,
                                const std::atomic<uint32_t>* stop) {
  const std::string name = socketOfPlace(commId);
  const auto noAnswer = [&](const std::string& when) {
    return cat("got no answer from the rendezvous at ", where, " ", when, " (no process of user ", geteuid(),
               " serves it on this host: abstract Unix socket ", name,
               "); check that rank 0 runs, here and as this user, or set TUTTI_SECRET alike on all ranks");
  };
  Overdue overdue;
  const int64_t beganNs = nowNs();
  overdue.begin(beganNs);
  for (;;) {
    TUTTI_ASSIGN(const Fd server, connectToPlace(name));
    if (server.valid()) {
      TUTTI_ASSIGN(Secret secret, askForSecret(server.get(), where));
      if (!secret.empty()) return secret;
    }
    if (stop != nullptr && stop->load(std::memory_order_relaxed) != 0)
      return remoteError(ErrorCode::Aborted, "was told to abort while it waited for the rendezvous at ", where);
    if (deadline.passed())
      return timeoutError(ErrorCode::RendezvousSilent, noAnswer(cat("within ", formatSpan(nowNs() - beganNs))));
    if (const int64_t seconds = overdue.dueSeconds(nowNs()); seconds > 0)
      TUTTI_WARN("bootstrap", "this rank ", noAnswer(cat("within ", seconds, " s")));
    ::usleep(kAskAgainMs * 1000);
  }
}

}  // namespace tutti
