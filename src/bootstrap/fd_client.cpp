#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "src/base/config.hpp"
#include "src/base/text.hpp"
#include "src/bootstrap/fd_exchange.hpp"
#include "src/bootstrap/fd_wire.hpp"

namespace tutti {
namespace {

using namespace fdwire;

constexpr int kSliceMs = 5;  // how often a wait looks whether it should stop

/// Wait until the socket has something to read.
Status waitReadable(int fd, const std::function<Status()>& stop) {
  for (;;) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, kSliceMs) > 0) return {};
    TUTTI_TRY(stop());
  }
}

Result<Fd> connectTo(const std::string& serverName, const std::function<Status()>& stop) {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errnoError(errno, "cannot open a Unix socket");
  sockaddr_un address;
  const socklen_t bytes = abstractAddress(serverName, &address);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    if (errno == ECONNREFUSED) return remoteError("nobody listens on its Unix socket ", serverName, " any more");
    if (errno != EAGAIN && errno != EINTR) return errnoError(errno, cat("cannot connect to Unix socket ", serverName));
    TUTTI_TRY(stop());  // its queue is full: more ranks than it has looked at yet
    ::poll(nullptr, 0, 1);
  }
  if (!sameUser(fd.get())) return remoteError("Unix socket ", serverName, " belongs to another user");
  return fd;
}

// Both have proven the secret when they met.
Status cutOff() { return remoteError("it has left this communicator"); }

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
  if (!received.valid()) return systemError("no descriptor came with the answer (too many open files?)");
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

Result<Fd> fetchFd(const std::string& serverName, const CommId& commId, const Secret& secret, const std::string& key,
                   const std::function<Status()>& stop) {
  if (key.empty() || key.size() > kMaxFdKeyBytes) return invalidUsage("a descriptor key of ", key.size(), " bytes");
  TUTTI_ASSIGN(const Fd socket, connectTo(serverName, stop));
  TUTTI_TRY(waitReadable(socket.get(), stop));
  char nonce[kNonceBytes];
  if (::recv(socket.get(), nonce, sizeof nonce, 0) != ssize_t{kNonceBytes}) return cutOff();
  const std::string_view serverNonce(nonce, sizeof nonce);
  const std::string clientNonce = randomText(kNonceBytes);
  const Secret proving = proofSecret(secret);
  std::string request(reinterpret_cast<const char*>(commId.data()), commId.size());
  request.append(clientNonce).append(proof(proving, "client", serverNonce, clientNonce, key)).append(key);
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return cutOff();
  TUTTI_TRY(waitReadable(socket.get(), stop));
  return receiveDescriptor(socket.get(), proof(proving, "server", serverNonce, clientNonce, key));
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
