// How a rank ends calls in which it only sends, as the root of a Broadcast does.
//
// Its call is over once the data lies in shared memory, perhaps before a rank on the same core could read any of it. If
// it then goes on with work of its own, that rank's call takes as long as the work; so it hands the core on first.  In
// a row of calls that would cost more than it brings: the sender runs ahead, and readers take many messages in one
// turn. So what decides is how long the rank stayed away after the last such call.
#pragma once

#include <cstdint>

#include "src/base/clock.hpp"
#include "src/exec/drive.hpp"

namespace tutti {

/// Of a communicator; one thread at a time.
class HandOver {
 public:
  /// Two switches of threads take about as long.
  static constexpr int64_t kLeastAwayNs = 4000;
  /// In a row of calls only one in so many looks at the clock: twice, which is a good part of a short call.
  static constexpr uint32_t kCallsPerLook = 8;

  /// A call begins.
  void begin() {
    if (leftNs_ == 0) return;
    awayNs_ = nowNs() - leftNs_;
    leftNs_ = 0;
  }
  /// A call is over in which this rank only sent, nothing that stayed its own until it was read.
  void end(const WaitPolicy& policy) {
    const bool stayedAway = awayNs_ >= kLeastAwayNs;
    if (stayedAway) handOn(policy);
    if (stayedAway || ++calls_ % kCallsPerLook == 0) leftNs_ = nowNs();
  }

 private:
  int64_t leftNs_ = 0;  // of the last call that looked at the clock; 0: another has begun since
  int64_t awayNs_ = 0;
  uint32_t calls_ = 0;
};

}  // namespace tutti
