// How a rank ends calls in which it only sends, as the root of a Broadcast does.
//
// Its call is over once the data lies in shared memory, perhaps before a rank on the same core could read any of it. If
// it then goes on with work of its own, that rank's call takes as long as the work; so it hands the core on first.  In
// a row of calls that would cost more than it brings: the sender runs ahead, and readers take many messages in one
// turn. So what decides is how long the rank stayed away after the last such call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/clock.hpp"
#include "src/exec/drive.hpp"

namespace tutti {

/// Of a communicator; one thread at a time.
class HandOver {
 public:
  /// Two switches of threads take about as long.
  static constexpr int64_t kLeastAwayNs = 4000;
  /// In a row of calls few look at the clock, which is a good part of a short call: the first, the third, the seventh
  /// and so on, and from then on one in so many.
  static constexpr uint32_t kMostCallsPerLook = 64;

  /// A call begins.
  void begin() {
    if (leftNs_ == 0) return;
    stayedAway_ = nowNs() - leftNs_ >= kLeastAwayNs;
    callsPerLook_ = stayedAway_ ? 1 : std::min(2 * callsPerLook_, kMostCallsPerLook);
    leftNs_ = 0;
    calls_ = 0;
  }
  /// A call is over in which this rank only sent, nothing that stayed its own until it was read.
  void end(const WaitPolicy& policy) {
    if (stayedAway_) handOn(policy);
    if (++calls_ >= callsPerLook_) leftNs_ = nowNs();
  }

 private:
  bool stayedAway_ = false;  // after the last call that looked
  int64_t leftNs_ = 0;       // when that was over; 0: another has begun since
  uint32_t callsPerLook_ = 1, calls_ = 0;
};

}  // namespace tutti
