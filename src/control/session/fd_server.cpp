#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "src/base/text.hpp"
#include "src/control/session/fd_exchange.hpp"
#include "src/control/session/fd_wire.hpp"

namespace tutti {
namespace {
constexpr size_t kMaxClients = 4096;
constexpr int64_t kFdAcceptPauseNs = 50'000'000;
}  // namespace

Result<std::unique_ptr<FdServer>> FdServer::create(Reactor& reactor) {
  std::unique_ptr<FdServer> server(new FdServer(reactor));
  const std::string random = fdwire::randomText(16);
  server->name_ = "tutti-" + toHex(random.data(), random.size());
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errnoError(errno, ErrorCode::SocketRefused, "cannot open a Unix socket");
  sockaddr_un address;
  const socklen_t bytes = fdwire::abstractAddress(server->name_, &address);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return errnoError(errno, ErrorCode::SocketRefused,
                      cat("cannot listen on the abstract Unix socket ", server->name_));
  }
  server->listener_ = OwnFd(std::move(fd));
  FdServer* self = server.get();
  server->watch_ = reactor.add(server->listener_.get(), EPOLLIN, [self](uint32_t) { self->onAcceptable(); });
  if (server->watch_ == 0) return errnoError(errno, ErrorCode::NoEpoll, "cannot watch a Unix socket");
  return server;
}

FdServer::~FdServer() {
  reactor_.remove(watch_);
  while (!clients_.empty()) drop(clients_.begin());
}

void FdServer::admit(const CommId& commId, const Secret& secret) {
  communities_[commId].secret = fdwire::proofSecret(secret);
}

void FdServer::dismiss(const CommId& commId) {
  communities_.erase(commId);
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto next = std::next(client);
    if (client->waiting && client->commId == commId) drop(client);
    client = next;
  }
}

Status FdServer::serve(const CommId& commId, const std::string& key, int fd) {
  const auto community = communities_.find(commId);
  if (community == communities_.end())
    return invalidUsage(ErrorCode::Finalized, "descriptor '", key, "' for a communicator that has ended");
  if (key.empty() || key.size() > kMaxFdKeyBytes)
    return internalError(ErrorCode::PartMisused, "a descriptor key of ", key.size(), " bytes");
  if (community->second.served.count(key) != 0)
    return internalError(ErrorCode::PartMisused, "descriptor '", key, "' is already served");
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid())
    return errnoError(errno, ErrorCode::SharedMemoryRefused,
                      cat("cannot duplicate descriptor ", fd, " to serve '", key, "'"));
  community->second.served.emplace(key, OwnFd(std::move(copy)));
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto next = std::next(client);
    if (client->waiting && client->commId == commId && client->key == key && answer(&*client)) drop(client);
    client = next;
  }
  return {};
}

void FdServer::unserve(const CommId& commId, const std::string& key) {
  const auto community = communities_.find(commId);
  if (community != communities_.end()) community->second.served.erase(key);
}

void FdServer::onAcceptable() {
  for (;;) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      reactor_.modify(watch_, 0);  // out of descriptors: the others wait in the queue
      acceptAgainNs_ = nowNs() + kFdAcceptPauseNs;
      return;
    }
    if (!fdwire::sameUser(fd.get()) || clients_.size() >= kMaxClients) continue;
    const auto client = clients_.emplace(clients_.end());
    client->fd = OwnFd(std::move(fd));
    client->nonce = fdwire::randomText(fdwire::kNonceBytes);
    client->watch = reactor_.add(client->fd.get(), EPOLLIN, [this, client](uint32_t) { onClient(client); });
    const ssize_t sent = ::send(client->fd.get(), client->nonce.data(), client->nonce.size(), MSG_NOSIGNAL);
    if (client->watch == 0 || sent != static_cast<ssize_t>(client->nonce.size())) drop(client);
  }
}

void FdServer::onTimer() {
  if (acceptAgainNs_ > nowNs()) return;
  acceptAgainNs_ = kNoTimer;
  reactor_.modify(watch_, EPOLLIN);
}

void FdServer::onClient(ClientIt client) {
  // A second message, or the end of the connection while it waits: it is not interested any more.
  if (client->waiting || !readRequest(&*client)) return drop(client);
  if (client->waiting && answer(&*client)) drop(client);
}

/// False: drop it.
bool FdServer::readRequest(Client* client) {
  using namespace fdwire;
  char buffer[kRequestHeadBytes + kMaxFdKeyBytes];
  const ssize_t n = ::recv(client->fd.get(), buffer, sizeof buffer, MSG_TRUNC);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  const auto bytes = static_cast<size_t>(n);
  if (bytes <= kRequestHeadBytes || bytes > sizeof buffer) return false;
  const std::string_view request(buffer, bytes);
  const std::string_view clientNonce = request.substr(kCommIdBytes, kNonceBytes);
  const std::string_view claimed = request.substr(kCommIdBytes + kNonceBytes, kProofBytes);
  const std::string_view key = request.substr(kRequestHeadBytes);
  std::memcpy(client->commId.data(), buffer, kCommIdBytes);
  const auto community = communities_.find(client->commId);
  if (community == communities_.end()) return false;
  const Secret& secret = community->second.secret;
  if (!sameBytes(claimed, proof(secret, "client", client->nonce, clientNonce, key))) return false;
  client->waiting = true;
  client->key = key;
  client->answer = proof(secret, "server", client->nonce, clientNonce, key);
  return true;
}

/// True: it has had its answer, or cannot have one.
bool FdServer::answer(Client* client) {
  const auto community = communities_.find(client->commId);
  if (community == communities_.end()) return true;
  const auto served = community->second.served.find(client->key);
  if (served == community->second.served.end()) return false;
  const int fd = served->second.get();
  iovec part{client->answer.data(), client->answer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return ::sendmsg(client->fd.get(), &message, MSG_NOSIGNAL) >= 0 || errno != EAGAIN;
}

void FdServer::drop(ClientIt client) {
  reactor_.remove(client->watch);
  clients_.erase(client);
}

}  // namespace tutti
