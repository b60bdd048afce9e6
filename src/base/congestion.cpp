#include "src/base/congestion.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "src/base/fd.hpp"
#include "src/base/log.hpp"

namespace tutti {
namespace {

/// "" if it has none: not a TCP socket.
std::string controlOf(int fd) {
  char name[16] = {};
  socklen_t bytes = sizeof name - 1;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0 ? name : "";
}

void setControl(int fd, const std::string& name) {
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0) return;
  TUTTI_DEBUG("tcp", "no congestion control ", name, ", errno ", errno);
}

bool paces(const std::string& control) { return control.starts_with("bbr"); }

/// Of a connection, by what its handshake took; false where that is not known.
bool isNear(int fd) {
  tcp_info info = {};
  socklen_t bytes = sizeof info;
  const bool known = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0;
  return known && info.tcpi_rtt > 0 && info.tcpi_rtt < kNearUs;
}

/// What a new socket has.
std::string systemControl() {
  const Fd fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fresh.valid() ? controlOf(fresh.get()) : "";
}

}  // namespace

void beginUnpaced(int fd) {
  if (paces(controlOf(fd))) setControl(fd, "reno");
}

void followSystemPace(int fd) {
  const std::string system = systemControl();
  if (paces(system)) setControl(fd, isNear(fd) ? "cubic" : system);
}

}  // namespace tutti
