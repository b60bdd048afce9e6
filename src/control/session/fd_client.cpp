#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/config.hpp"
#include "src/base/text.hpp"
#include "src/control/session/fd_exchange.hpp"
#include "src/control/session/fd_wire.hpp"

namespace tutti {
namespace {

using namespace fdwire;

// Both have proven the secret when they met.
Status cutOff() { return remoteError(ErrorCode::LeftEarly, "it has left this communicator"); }

/// The descriptor in a message, if there is exactly one and the text is the expected one.
Result<Fd> receiveDescriptor(int socket, const std::string& expected) {
  char text[kProofBytes + 1];
  iovec part{text, sizeof text};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (n <= 0) return cutOff();
  Fd received;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
      head->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
    received.reset(fd);
  }
  if (!sameBytes({text, static_cast<size_t>(n)}, expected)) return cutOff();
  if (!received.valid())
    return systemError(ErrorCode::TooManyFiles, "no descriptor came with the answer (too many open files?)");
  return received;
}

std::string readLine(const char* path) {
  char text[128];
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd.valid() ? ::read(fd.get(), text, sizeof text) : -1;
  std::string line(text, n > 0 ? static_cast<size_t>(n) : 0);
  return line.substr(0, line.find('\n'));
}

}  // namespace

Result<Fd> FdFetch::poll() {
  if (failure_.ok() && !socket_.valid()) failure_ = connect();
  TUTTI_TRY(failure_);
  return std::move(fetched_);
}

/// Nothing while the server's queue is full: more ranks than it has looked at yet.
Status FdFetch::connect() {
  const std::string& key = request_.key;
  if (key.empty() || key.size() > kMaxFdKeyBytes)
    return internalError(ErrorCode::PartMisused, "a descriptor key of ", key.size(), " bytes");
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errnoError(errno, ErrorCode::SocketRefused, "cannot open a Unix socket");
  const std::string& server = request_.serverName;
  sockaddr_un address;
  const socklen_t bytes = abstractAddress(server, &address);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    if (errno == ECONNREFUSED)
      return remoteError(ErrorCode::PeerClosed, "nobody listens on its Unix socket ", server, " any more");
    return errnoError(errno, ErrorCode::SocketRefused, cat("cannot connect to Unix socket ", server));
  }
  if (!sameUser(fd.get())) return remoteError(ErrorCode::Stranger, "Unix socket ", server, " belongs to another user");
  socket_ = OwnFd(std::move(fd));
  watch_ = reactor_.add(socket_.get(), EPOLLIN, [this](uint32_t) { onReadable(); });
  return watch_ != 0 ? Status() : errnoError(errno, ErrorCode::NoEpoll, "cannot watch a Unix socket");
}

void FdFetch::onReadable() {
  failure_ = expected_.empty() ? prove() : receive();
  if (failure_.ok() && !fetched_.valid()) return;
  reactor_.remove(std::exchange(watch_, 0));
  arrived_();
}

Status FdFetch::prove() {
  char nonce[kNonceBytes];
  if (::recv(socket_.get(), nonce, sizeof nonce, 0) != ssize_t{kNonceBytes}) return cutOff();
  const std::string_view serverNonce(nonce, sizeof nonce);
  const std::string clientNonce = randomText(kNonceBytes);
  const Secret proving = proofSecret(request_.secret);
  const std::string& key = request_.key;
  std::string text(reinterpret_cast<const char*>(request_.commId.data()), request_.commId.size());
  text.append(clientNonce).append(proof(proving, "client", serverNonce, clientNonce, key)).append(key);
  if (::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return cutOff();
  expected_ = proof(proving, "server", serverNonce, clientNonce, key);
  return {};
}

Status FdFetch::receive() {
  TUTTI_ASSIGN(fetched_, receiveDescriptor(socket_.get(), expected_));
  return {};
}

std::string descriptorDomain() {
  char ns[64];
  const ssize_t n = ::readlink("/proc/self/ns/net", ns, sizeof ns);
  const std::string boot = readLine("/proc/sys/kernel/random/boot_id");
  if (n <= 0 || boot.empty()) return {};  // cannot tell: then never
  const Secret digest =
      deriveSecret({}, cat(boot, "/", std::string(ns, static_cast<size_t>(n)), "/", configText("TUTTI_HOSTID")));
  return toHex(digest.data(), digest.size());
}

}  // namespace tutti
