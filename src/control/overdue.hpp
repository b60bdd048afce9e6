// When to say that a wait lasts long.
#pragma once

#include "src/control/network.hpp"

namespace tutti {

/// A wait: due after `patienceNs`, and then whenever it has lasted twice as long as the last time.  One thread at a
/// time.
class Overdue {
 public:
  explicit Overdue(int64_t patienceNs = 5'000'000'000) : patienceNs_(patienceNs) {}
  void begin(int64_t nowNs) {
    sinceNs_ = nowNs;
    nextNs_ = nowNs + patienceNs_;
  }
  void end() { nextNs_ = kNoTimer; }
  bool begun() const { return nextNs_ != kNoTimer; }
  /// kNoTimer: no wait has begun.
  int64_t nextNs() const { return nextNs_; }
  /// Whether it is to be said now.
  bool due(int64_t nowNs) {
    if (nowNs < nextNs_) return false;
    nextNs_ = nowNs + (nowNs - sinceNs_);
    return true;
  }
  /// The seconds that the wait has lasted, if that is to be said now; else 0.
  int64_t dueSeconds(int64_t nowNs) { return due(nowNs) ? (nowNs - sinceNs_) / 1'000'000'000 : 0; }

 private:
  int64_t patienceNs_;
  int64_t sinceNs_ = 0, nextNs_ = kNoTimer;
};

}  // namespace tutti
