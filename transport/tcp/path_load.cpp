#include "transport/tcp/path_load.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

namespace tutti::tcp {
namespace {

constexpr int64_t kBetweenLooksNs = 200'000;  // a look costs a system call; in between we compute

constexpr uint32_t kLatelyMs = 50;

/// The beginning of Linux's struct tcp_info, which glibc's own ends too early for.
struct SystemInfo {
  uint32_t words1[4];
  uint32_t segmentBytes, words2, unackedSegments;
  uint32_t words3[7];
  uint32_t sinceAcknowledgedMs;
  uint32_t words6[11];
  uint64_t longs[4];
  uint32_t words4[2];
  uint32_t unsentBytes;
  uint32_t words5[3];
  uint64_t bytesPerSecond;  // delivered, of late
};
static_assert(offsetof(SystemInfo, segmentBytes) == 16 && offsetof(SystemInfo, unackedSegments) == 24);
static_assert(offsetof(SystemInfo, sinceAcknowledgedMs) == 56);
static_assert(offsetof(SystemInfo, unsentBytes) == 144 && offsetof(SystemInfo, bytesPerSecond) == 160);

}  // namespace

void PathLoad::look(int fd, int64_t nowNs) {
  lookedNs_ = nowNs;
  SystemInfo info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || bytes < sizeof info) return;
  queued_ = static_cast<double>(info.unackedSegments) * info.segmentBytes + info.unsentBytes;
  delivers_ = info.bytesPerSecond > 0 && info.sinceAcknowledgedMs < kLatelyMs;
  if (info.bytesPerSecond > 0) bytesPerNs_ = static_cast<double>(info.bytesPerSecond) / 1e9;
}

double PathLoad::untilDelivered(int fd, size_t bytes, int64_t nowNs) {
  queued_ = std::max(0.0, queued_ - static_cast<double>(nowNs - atNs_) * bytesPerNs_);
  atNs_ = nowNs;
  if (nowNs - lookedNs_ >= kBetweenLooksNs) look(fd, nowNs);
  const double left = queued_ + static_cast<double>(bytes);
  return bytesPerNs_ > 0 ? left / bytesPerNs_ : queued_;
}

}  // namespace tutti::tcp
