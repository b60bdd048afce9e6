// Time: monotonic nanoseconds, and deadlines.
#pragma once

#include <cstdint>
#include <ctime>
#include <limits>

namespace tutti {

constexpr int64_t kMs = 1'000'000;  // a millisecond, in nanoseconds

/// CLOCK_MONOTONIC in nanoseconds.
inline int64_t nowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// A point in time after which a wait gives up.  A value; never() waits for ever.
class Deadline {
 public:
  static Deadline never() { return Deadline(std::numeric_limits<int64_t>::max()); }
  static Deadline at(int64_t ns) { return Deadline(ns); }
  /// timeoutMs <= 0 means never, as in config.timeoutMs.
  static Deadline inMs(int64_t timeoutMs) {
    return timeoutMs <= 0 ? never() : Deadline(nowNs() + timeoutMs * 1'000'000);
  }
  bool passed() const { return ns_ != std::numeric_limits<int64_t>::max() && nowNs() >= ns_; }
  int64_t ns() const { return ns_; }
  /// Milliseconds left, rounded up, at least 0 and at most `most`.
  int leftMs(int most) const {
    if (ns_ == std::numeric_limits<int64_t>::max()) return most;
    const int64_t left = (ns_ - nowNs() + 999'999) / 1'000'000;
    return left <= 0 ? 0 : left < most ? static_cast<int>(left) : most;
  }

 private:
  explicit Deadline(int64_t ns) : ns_(ns) {}
  int64_t ns_;
};

/// Between two looks at an event or a stream of a device, or at what else nobody rings for.  Blocking in the driver
/// would leave no way to give up, so who waits for a device looks now and then; what it waits for is work of the
/// program's, of any length, never a message whose delay counts.
inline void pauseBetweenLooks() {
  constexpr long kPauseNs = 50'000;
  const timespec time{0, kPauseNs};
  nanosleep(&time, nullptr);
}

}  // namespace tutti
