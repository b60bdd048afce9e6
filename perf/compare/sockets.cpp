// The congestion control of a peer's TCP sockets.  Where the system's is BBR, Tutti's own connections inside a host go
// without (src/base/congestion.hpp); so that not the control is compared, COMPARE_CONGESTION names the one that Tutti
// has, and the peers' sockets get it.  This socket() stands before libc's; what a listener accepts has the listener's.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int socket(int domain, int type, int protocol) noexcept {
  const int fd = static_cast<int>(syscall(SYS_socket, domain, type, protocol));
  const char* control = std::getenv("COMPARE_CONGESTION");
  const bool tcp = (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM && (domain == AF_INET || domain == AF_INET6);
  if (fd < 0 || !tcp || control == nullptr || *control == '\0') return fd;
  const auto bytes = static_cast<socklen_t>(std::strlen(control));
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, bytes) == 0) return fd;
  std::fprintf(stderr, "COMPARE_CONGESTION=%s: %s\n", control, std::strerror(errno));
  std::_Exit(1);  // with another control the comparison would be worth nothing
}
