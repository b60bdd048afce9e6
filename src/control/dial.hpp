// Someone we keep dialing until it works.
#pragma once

#include "src/control/handshake.hpp"
#include "src/control/network.hpp"

namespace tutti {

/// Listeners are older than what is dialed of them, and go with their process: where nobody listens for this long there
/// is none.
inline constexpr int64_t kNobodyListensNs = 100'000'000;

/// How long a link that broke may take to come back: as long as the system waits for a silent host; less where the
/// peer's system has closed it in order, which was most likely the end of the process, and now its host does not
/// answer.
inline int64_t brokenPatienceNs(const Status& why) { return closedByPeer(why) ? 2'000'000'000 : 8'000'000'000; }

struct Dial {
  ControlAddress to;
  Hello hello;
  LinkId link = 0;            // under way; 0: none
  int64_t nextNs = kNoTimer;  // when to try again; kNoTimer: not waiting
  int64_t backoffNs = 0;
  int64_t beganNs = kNoTimer;  // of a link or stream that lacks
  int64_t failingSinceNs = kNoTimer;
  int64_t refusedSinceNs = kNoTimer;
  Status why;  // of the last failure

  /// It has failed: again at nextNs, later each time.
  void retry(Network& network, const Status& reason);
  /// Whether it has failed for so long, by more than silence.
  bool failingFor(int64_t nowNs, int64_t ns) const {
    return failingSinceNs != kNoTimer && nowNs - failingSinceNs >= ns;
  }
  /// Whether nobody is there any more: nobody listens, or links have been cut off for so long.
  bool findsNobody(int64_t nowNs, int64_t cutOffNs) const {
    return failingFor(nowNs, cutOffNs) || (refusedSinceNs != kNoTimer && nowNs - refusedSinceNs >= kNobodyListensNs);
  }
};

/// `to` with number `path` of the addresses of the first one's kind (family, link-local of IPv6 or not) in front, round
/// and round.
ControlAddress beginWith(const ControlAddress& to, int path);

}  // namespace tutti
