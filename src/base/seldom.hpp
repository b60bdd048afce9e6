// What happens often and is said seldom.
#pragma once

#include <cstdint>

#include "src/base/clock.hpp"

namespace tutti {

/// One thread at a time.
class Seldom {
 public:
  /// It has happened again.  How often since it was last said, if it is to be said now; else 0.  At most once in ten
  /// seconds.
  uint64_t due(int64_t nowNs) {
    constexpr int64_t kQuietNs = 10'000 * kMs;
    ++times_;
    if (saidNs_ != 0 && nowNs - saidNs_ < kQuietNs) return 0;
    saidNs_ = nowNs;
    const uint64_t times = times_;
    times_ = 0;
    return times;
  }

 private:
  int64_t saidNs_ = 0;
  uint64_t times_ = 0;
};

}  // namespace tutti
