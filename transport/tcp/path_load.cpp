#include "transport/tcp/path_load.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tutti::tcp {
namespace {

constexpr int64_t kBetweenLooksNs = 200'000;  // a look costs a system call; in between we compute

constexpr uint32_t kLatelyMs = 50;
/// What is written within so long of a look is work without a pause.
constexpr int64_t kAtOnceNs = 50'000;

/// Time of work that a speed is the mean of: bursts that a shaper lets pass are far shorter, changes of a link longer.
constexpr double kMeanNs = 50e6;
/// A mean of less tells of single acknowledgements.
constexpr double kLeastMeanBytes = 32 << 10;
/// A speed that nothing has been measured for so long is the system's again, so that a path that was slow is tried.
constexpr int64_t kForgottenNs = 1'000'000'000;

/// The beginning of Linux's struct tcp_info, which glibc's own ends too early for.
struct SystemInfo {
  uint32_t words1[4];
  uint32_t segmentBytes, words2, unackedSegments;
  uint32_t words3[7];
  uint32_t sinceAcknowledgedMs;
  uint32_t words6[11];
  uint64_t longs1[2];
  uint64_t acknowledgedBytes;
  uint64_t longs2[1];
  uint32_t words4[2];
  uint32_t unsentBytes;
  uint32_t words5[3];
  uint64_t bytesPerSecond;  // delivered, of late
};
static_assert(offsetof(SystemInfo, segmentBytes) == 16 && offsetof(SystemInfo, unackedSegments) == 24);
static_assert(offsetof(SystemInfo, sinceAcknowledgedMs) == 56 && offsetof(SystemInfo, acknowledgedBytes) == 120);
static_assert(offsetof(SystemInfo, unsentBytes) == 144 && offsetof(SystemInfo, bytesPerSecond) == 160);

}  // namespace

void PathLoad::look(int fd, int64_t nowNs) {
  SystemInfo info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || bytes < sizeof info) {
    lookedNs_ = nowNs;
    return;
  }
  learn(info.acknowledgedBytes, nowNs);
  lookedNs_ = atNs_ = nowNs;
  queued_ = static_cast<double>(info.unackedSegments) * info.segmentBytes + info.unsentBytes;
  work_ = queued_;
  workNs_ = nowNs;
  delivers_ = info.bytesPerSecond > 0 && info.sinceAcknowledgedMs < kLatelyMs;
  if (meanBytes_ >= kLeastMeanBytes) {
    bytesPerNs_ = meanBytes_ / meanBusyNs_;
  } else if (info.bytesPerSecond > 0) {
    bytesPerNs_ = static_cast<double>(info.bytesPerSecond) / 1e9;
  }
}

// What came to an end before this look may have done so any time ago: only a path that has been at work all along tells
// its speed.  The counter begins anew when a connection is replaced.
void PathLoad::learn(uint64_t acknowledgedBytes, int64_t nowNs) {
  const bool sameCounter = acknowledgedBytes >= acknowledgedBytes_;
  const double some = sameCounter ? static_cast<double>(acknowledgedBytes - acknowledgedBytes_) : 0;
  if (sameCounter && some < work_) {
    const auto worked = static_cast<double>(nowNs - workNs_);
    const double kept = std::exp(-worked / kMeanNs);
    meanBytes_ = meanBytes_ * kept + some;
    meanBusyNs_ = meanBusyNs_ * kept + worked;
    learnedNs_ = nowNs;
  } else if (nowNs - learnedNs_ > kForgottenNs) {
    meanBytes_ = meanBusyNs_ = 0;
  }
  acknowledgedBytes_ = acknowledgedBytes;
}

double PathLoad::untilDelivered(int fd, size_t bytes, int64_t nowNs) {
  if (nowNs - lookedNs_ >= kBetweenLooksNs) look(fd, nowNs);
  queued_ = std::max(0.0, queued_ - static_cast<double>(nowNs - atNs_) * bytesPerNs_);
  atNs_ = nowNs;
  const double left = queued_ + static_cast<double>(bytes);
  return bytesPerNs_ > 0 ? left / bytesPerNs_ : queued_;
}

void PathLoad::wrote(size_t bytes) {
  const auto more = static_cast<double>(bytes);
  queued_ += more;
  if (work_ <= 0) workNs_ = atNs_;
  if (atNs_ - workNs_ <= kAtOnceNs) work_ += more;
}

void PathLoad::watch(int fd, int64_t nowNs) {
  if (work_ > 0 && nowNs - lookedNs_ >= kBetweenLooksNs) look(fd, nowNs);
}

}  // namespace tutti::tcp
