// When to warn that what is waited for has not come.
#pragma once

#include "src/control/network.hpp"

namespace tutti {

/// After five seconds, and then whenever the wait has lasted twice as long.  One thread at a time.
class Overdue {
 public:
  void begin(int64_t nowNs) {
    sinceNs_ = nowNs;
    nextNs_ = nowNs + kPatienceNs;
  }
  int64_t nextNs() const { return nextNs_; }
  /// How many seconds the wait has lasted if that is to be said now; else 0.
  int64_t dueSeconds(int64_t nowNs) {
    if (nowNs < nextNs_) return 0;
    nextNs_ = nowNs + (nowNs - sinceNs_);
    return (nowNs - sinceNs_) / 1'000'000'000;
  }

 private:
  static constexpr int64_t kPatienceNs = 5'000'000'000;
  int64_t sinceNs_ = 0, nextNs_ = kNoTimer;
};

}  // namespace tutti
