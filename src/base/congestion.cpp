#include "src/base/congestion.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "src/base/fd.hpp"
#include "src/base/log.hpp"
#include "src/base/text.hpp"

namespace tutti {
namespace {

constexpr size_t kNameBytes = 16;  // Linux: TCP_CA_NAME_MAX, with the zero at its end

/// 0 or an errno.
int trySetting(int fd, const std::string& name) {
  const auto bytes = static_cast<socklen_t>(name.size());
  return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), bytes) == 0 ? 0 : errno;
}

void setControl(int fd, const std::string& name) {
  const int error = trySetting(fd, name);
  if (error != 0) TUTTI_DEBUG("tcp", "no congestion control ", name, ", errno ", error);
}

/// What the system lists under this name: "reno cubic".
std::string systemList(const char* what) {
  std::string text;
  std::ifstream file(cat("/proc/sys/net/ipv4/tcp_", what, "_congestion_control"));
  std::getline(file, text);
  return text.empty() ? "not told" : text;
}

bool paces(const std::string& control) { return control.starts_with("bbr"); }

/// What a new socket has.
std::string systemControl() {
  const Fd fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fresh.valid() ? congestionControlOf(fresh.get()) : "";
}

}  // namespace

std::string congestionControlOf(int fd) {
  char name[kNameBytes] = {};
  socklen_t bytes = sizeof name - 1;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0 ? name : "";
}

Status setCongestionControl(int fd, const std::string& name) {
  // The system would cut a longer name, and could take it for another.
  const int error = name.size() < kNameBytes ? trySetting(fd, name) : ENOENT;
  switch (error) {
    case 0: return {};
    case ENOENT:
      return invalidUsage(ErrorCode::NotHonoured, "the system has no tcp congestion control '", name,
                          "'; it has: ", systemList("available"), " (others may be modules: modprobe tcp_", name, ")");
    case EPERM:
      return invalidUsage(ErrorCode::NotHonoured, "the system keeps the tcp congestion control '", name,
                          "' from this user, who may have: ", systemList("allowed"),
                          " (sysctl net.ipv4.tcp_allowed_congestion_control adds to them)");
    default: return errnoError(error, ErrorCode::SocketSetting, cat("tcp congestion control '", name, "'"));
  }
}

Status checkCongestionControl(const std::string& name) {
  const Fd fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fresh.valid()) return errnoError(errno, ErrorCode::SocketRefused, "a socket to try a congestion control on");
  const Status has = setCongestionControl(fresh.get(), name);
  return has.ok() ? has : Status(has.code(), cat("TUTTI_TCP_CONGESTION: ", has.text()));
}

bool isNear(int fd) {
  tcp_info info = {};
  socklen_t bytes = sizeof info;
  const bool known = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0;
  return known && info.tcpi_rtt > 0 && info.tcpi_rtt < kNearUs;
}

void beginUnpaced(int fd) {
  if (paces(congestionControlOf(fd))) setControl(fd, "reno");
}

void followSystemPace(int fd) {
  const std::string system = systemControl();
  if (paces(system)) setControl(fd, isNear(fd) ? "cubic" : system);
}

}  // namespace tutti
