#include "src/base/tcp_stall.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace tutti {
namespace {

// A connection is silent when its system has repeated twice and nothing has come back for so long: at the usual least
// timeout of TCP (200 ms) repeats leave after 200 and 600 ms, and one lost repeat is no reason yet.
constexpr uint8_t kSilentRepeats = 2;
constexpr uint32_t kSilentMs = 500;

}  // namespace

std::optional<int64_t> tcpSilentMs(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  const bool silent =
      info.tcpi_unacked > 0 && info.tcpi_retransmits >= kSilentRepeats && info.tcpi_last_ack_recv >= kSilentMs;
  return silent ? std::optional<int64_t>(info.tcpi_last_ack_recv) : std::nullopt;
}

}  // namespace tutti
