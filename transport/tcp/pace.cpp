#include "transport/tcp/pace.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "src/base/log.hpp"

namespace tutti::tcp {

Pace::Pace(int fd, bool local) : fd_(fd) {
  char name[16] = {};
  socklen_t bytes = sizeof name - 1;
  if (!local || getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) != 0) return;
  if (std::string(name).starts_with("bbr")) system_ = name;
}

void Pace::change(bool large) {
  const std::string name = large ? "reno" : system_;
  large_ = large;
  small_ = 0;
  if (setsockopt(fd_, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0) return;
  TUTTI_DEBUG("tcp", "no congestion control ", name, ", errno ", errno);
  system_.clear();
}

}  // namespace tutti::tcp
