#include "src/control/session/socket_options.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace tutti {

void setOption(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

void tuneControlSocket(int fd, int64_t timeoutMs) {
  setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (timeoutMs <= 0) return;
  // A host that vanished: unacknowledged data by the user timeout, an idle link by the keep-alive probes.
  setOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::min<int64_t>(timeoutMs, 1 << 30)));
  const auto seconds = static_cast<int>(std::clamp<int64_t>(timeoutMs / 3000, 1, 3600));
  setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace tutti
