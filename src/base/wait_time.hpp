// How much of a wait's time is left.
//
// A wait looks at the clock, sleeps a little, and looks again.  A thread that got no core meanwhile (a machine with too
// much to do), or whose process was stopped (a debugger, a suspended machine, a frozen container), has not waited: what
// it waits for may be there already, and its peers on this host were held up as it was.  So a pause counts for at most
// twice as long as it was to be, and a millisecond.
#pragma once

#include <algorithm>
#include <limits>

#include "src/base/clock.hpp"

namespace tutti {

/// One wait, by one thread.  A value.
class WaitTime {
 public:
  /// The wait begins.
  WaitTime(Deadline deadline, int64_t nowNs)
      : leftNs_(deadline.ns() == kNever ? kNever : std::max<int64_t>(deadline.ns() - nowNs, 0)), lookedNs_(nowNs) {}

  /// A look: what has passed since the last one counts.  Gives how much of it does not.
  int64_t look(int64_t nowNs) {
    const int64_t passedNs = nowNs - lookedNs_;
    const int64_t countsNs = std::min(passedNs, pauseNs_ == 0 ? 0 : 2 * pauseNs_ + kMs);
    lookedNs_ = nowNs;
    pauseNs_ = 0;
    if (leftNs_ != kNever) leftNs_ = std::max<int64_t>(leftNs_ - countsNs, 0);
    return passedNs - countsNs;
  }
  /// How long to sleep before the next look: mostNs at most, and no longer than what is left.
  int64_t pauseNs(int64_t mostNs) { return pauseNs_ = std::min(mostNs, leftNs_); }
  bool over() const { return leftNs_ == 0; }
  /// When the wait ends if all counts from the last look on.
  Deadline end() const { return leftNs_ == kNever ? Deadline::never() : Deadline::at(lookedNs_ + leftNs_); }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();  // Deadline::never()
  int64_t leftNs_;
  int64_t lookedNs_;
  int64_t pauseNs_ = 0;  // asked for since the last look
};

}  // namespace tutti
