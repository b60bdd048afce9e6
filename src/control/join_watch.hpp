// When a rank that joins looks for whom to name: ever closer, the last time at its deadline.
#pragma once

#include <algorithm>

#include "src/control/network.hpp"

namespace tutti {

/// A value without I/O.
class JoinWatch {
 public:
  enum class Look : uint8_t {
    None,
    Unlinked,  // who is not linked with us, in time for all to hear of it; rank -1 would be the answer of everyone else
    Mute,      // who does not answer
    GiveUp,
  };

  /// deadlineNs: kNoTimer: it waits for ever.
  explicit JoinWatch(int64_t deadlineNs) : givenNs_(deadlineNs), deadlineNs_(deadlineNs) {}

  void begin(int64_t nowNs) {
    beganNs_ = nowNs;
    if (deadlineNs_ != kNoTimer) nextNs_ = atNs(0);
  }
  /// All ranks are up, or the join has failed.
  void end() { nextNs_ = kNoTimer; }
  /// Until then, if that is later.
  void putOff(int64_t deadlineNs) { deadlineNs_ = std::max(deadlineNs_, deadlineNs); }

  /// Between two looks; of the time that the join was given, however much it is put off.
  int64_t marginNs() const { return std::clamp<int64_t>((givenNs_ - beganNs_) / 10, 0, 1'000'000'000); }

  int64_t lastsNs(int64_t nowNs) const { return nowNs - beganNs_; }

  /// Whether the rendezvous knows a deadline that has been put off since.
  bool toBeTold() const { return deadlineNs_ - toldNs_ >= kToldNs; }
  /// For the rendezvous: how long until it is to say who has not come, before this rank looks itself; kNoTimer: for
  /// ever.
  int64_t tell(int64_t nowNs) {
    toldNs_ = deadlineNs_;
    return deadlineNs_ == kNoTimer ? kNoTimer : std::max<int64_t>(deadlineNs_ - marginNs() * 5 / 2 - nowNs, 0);
  }

  int64_t nextTimerNs() const { return nextNs_; }
  /// What to look for now.
  Look look(int64_t nowNs) {
    if (nowNs < nextNs_) return Look::None;
    nextNs_ = atNs(looks_);
    if (nowNs < nextNs_) return Look::None;  // it was put off
    nextNs_ = ++looks_ == kLooks ? kNoTimer : atNs(looks_);
    return static_cast<Look>(looks_);
  }

 private:
  static constexpr int kLooks = 3;
  static constexpr int64_t kToldNs = 250'000'000;

  int64_t atNs(int look) const { return deadlineNs_ - (kLooks - 1 - look) * marginNs(); }

  const int64_t givenNs_;
  int64_t deadlineNs_;
  int64_t toldNs_ = kNoTimer;
  int64_t beganNs_ = 0;
  int64_t nextNs_ = kNoTimer;
  int looks_ = 0;
};

}  // namespace tutti
