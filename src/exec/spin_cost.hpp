// Whether others want the core that a thread spins on, and so how long its waits may spin.
//
// Ranks that have a core each spin.  Beside programs that never wait that is wrong twice: a rank that spins for one
// that was put off its core uses up its own share of the time for nothing, and two ranks that the scheduler has put on
// one core wait for each other until one gives up.  Whoever sleeps instead lets the other run, and on a core that is
// busy is woken at once.  The system counts for how long a thread was ready to run and had no core; a thread that spins
// looks at that now and then.
//
// Work that the system does for others on the core (ksoftirqd, for what a network delivers) is short, and a thread that
// spins has its core back before one that sleeps would be awake.  So delays count only if they are as long as the turns
// of programs that compute.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "src/exec/thread_time.hpp"

namespace tutti {

/// One thread.  Times are those of nowNs().
class SpinCost {
 public:
  /// time: that of the thread; nothing: the system does not tell, and waits stay as they are.
  explicit SpinCost(std::function<std::optional<ThreadTime>()> time) : time_(std::move(time)) {}

  /// Whether a wait that has spun for kBriefNs is to sleep.
  bool briefly(int64_t nowNs) {
    if (nowNs >= nextLookNs_) [[unlikely]]
      look(nowNs);
    return shared_;
  }
  /// What briefly() gave last.
  bool shared() const { return shared_; }

  static constexpr int64_t kBriefNs = 10'000;
  /// The core is shared if the thread was kept from it for such a part of the time between two looks.
  static constexpr int64_t kDelayedPart = 8, kBetweenLooksNs = 20'000'000;
  /// And for so long each time.  Linux gives programs that compute 0.7 to 3 ms; ksoftirqd took 0.1 to 0.2 on cores that
  /// are emulated, and so slow.
  static constexpr int64_t kLeastTurnNs = 300'000;

 private:
  void look(int64_t nowNs);

  std::function<std::optional<ThreadTime>()> time_;
  std::optional<ThreadTime> before_;  // at the last look
  int64_t lookedNs_ = 0, nextLookNs_ = 0;
  bool shared_ = false;
};

/// That of the calling thread.
SpinCost& spinCostOfThread();

}  // namespace tutti
