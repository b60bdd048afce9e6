// What happens often and is said seldom.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/clock.hpp"

namespace tutti {

/// One thread at a time.
class Seldom {
 public:
  /// It has happened again.  How often since it was last said, if it is to be said now; else 0.  At most once in ten
  /// seconds, and while it goes on after twice as long each time, up to ten minutes.
  uint64_t due(int64_t nowNs) {
    ++times_;
    if (saidNs_ != 0 && nowNs - saidNs_ < quietNs_) return 0;
    const bool goesOn = saidNs_ != 0 && nowNs - saidNs_ < 2 * quietNs_;
    quietNs_ = goesOn ? std::min(2 * quietNs_, kMostQuietNs) : kLeastQuietNs;
    saidNs_ = nowNs;
    return take();
  }
  /// How often since it was last said, which then counts as said.
  uint64_t take() {
    const uint64_t times = times_;
    times_ = 0;
    return times;
  }

 private:
  static constexpr int64_t kLeastQuietNs = 10'000 * kMs, kMostQuietNs = 600'000 * kMs;
  int64_t saidNs_ = 0, quietNs_ = kLeastQuietNs;
  uint64_t times_ = 0;
};

}  // namespace tutti
