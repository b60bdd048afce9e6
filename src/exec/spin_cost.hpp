// Whether others want the core that a thread spins on, and so how long its waits may spin.
//
// Ranks that have a core each spin.  Beside programs that never wait that is wrong twice: a rank that spins for one
// that was put off its core uses up its own share of the time for nothing, and two ranks that the scheduler has put on
// one core wait for each other until one gives up.  Whoever sleeps instead lets the other run, and on a core that is
// busy is woken at once.  The system counts for how long a thread was ready to run and had no core; a thread that spins
// looks at that now and then.
//
// ksoftirqd, by which the system serves a network, is no such program.  It wants the core while the thread waits for
// that network, and a thread that sleeps is awake later than one that has its core back.  So delays count only if they
// are as long as the turns of programs that compute.  A thread that is kept from its core also asks, over a longer
// time, what tasks had it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "src/exec/thread_time.hpp"
#include "src/exec/turn_cost.hpp"

namespace tutti {

/// One thread.  Times are those of nowNs().
class SpinCost {
 public:
  /// time: that of the thread; nothing: the system does not tell, and waits stay as they are.  core: nothing: the
  /// system does not tell, and whoever had the core was a program.
  SpinCost(std::function<std::optional<ThreadTime>()> time, std::function<std::optional<TurnCost::CoreTime>()> core)
      : time_(std::move(time)), core_(std::move(core)) {}

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
  /// And for so long each time: Linux gives programs that compute 0.7 to 3 ms, and ksoftirqd took 0.1 to 0.2 at a time
  /// on cores that are emulated, and so slow.
  static constexpr int64_t kLeastTurnNs = 300'000;
  /// It is not if other tasks had less than such a part of it for so long, the system's clock of cores being one of
  /// hundredths of a second.  That is believed for a while, twice as long each time that it is found again.
  static constexpr int64_t kWindowNs = TurnCost::kWindowNs, kLeastTrustNs = 1'000'000'000, kMostTrustNs = 4'000'000'000;

 private:
  struct Window {
    TurnCost::CoreTime core;
    int64_t ranNs = 0, beganNs = 0;
  };
  void look(int64_t nowNs);
  /// Whether a window has ended in which other tasks had little of the core.
  bool othersHadLittle(const ThreadTime& time, int64_t nowNs);

  std::function<std::optional<ThreadTime>()> time_;
  std::function<std::optional<TurnCost::CoreTime>()> core_;
  std::optional<ThreadTime> before_;  // at the last look
  int64_t lookedNs_ = 0, nextLookNs_ = 0;
  bool shared_ = false;
  std::optional<Window> window_;
  int64_t aloneUntilNs_ = 0, trustNs_ = kLeastTrustNs;
};

/// That of the calling thread.
SpinCost& spinCostOfThread();

}  // namespace tutti
