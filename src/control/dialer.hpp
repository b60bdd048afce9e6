// Dials of one rank of one communicator, each until it works.
#pragma once

#include <algorithm>
#include <vector>

#include "src/control/authentication.hpp"
#include "src/control/dial.hpp"

namespace tutti {

/// A machine without I/O, like its owner, who has the dials and hears of their ends by onProven and onDialFailed.
class Dialer {
 public:
  /// The references outlive it.
  Dialer(Network& network, LinkAuthentication& authentication, MemberId id, const Secret& secret)
      : network_(network), authentication_(authentication), id_(id), secret_(secret) {}

  void dial(Dial& dial) {
    dial.nextNs = kNoTimer;
    dial.link = authentication_.dial(dial.to, dial.hello, secret_, id_);
  }
  /// It has failed, and is to be tried again.
  void again(Dial& dial, const Status& why) {
    dial.retry(network_, why);
    nextNs_ = std::min(nextNs_, dial.nextNs);
  }
  /// It is tried again then, if not before.
  void noLater(Dial& dial, int64_t ns) {
    dial.nextNs = std::min(dial.nextNs, ns);
    nextNs_ = std::min(nextNs_, dial.nextNs);
  }
  void cancel(const Dial& dial) { authentication_.cancel(dial.link); }

  /// The earliest nextNs of all dials, or earlier.
  int64_t nextTimerNs() const { return nextNs_; }
  void onTimer(const std::vector<Dial*>& dials) {
    const int64_t now = network_.nowNs();
    if (nextNs_ > now) return;
    nextNs_ = kNoTimer;
    for (Dial* each : dials) {
      if (each->nextNs <= now) dial(*each);
      nextNs_ = std::min(nextNs_, each->nextNs);
    }
  }
  /// One of a link or stream that lacks because the peer's host does not even take connections; nullptr: none.  A
  /// process that is busy or stopped has a system that does, and one packet may be lost.
  const Dial* unreachable(const std::vector<Dial*>& dials) const {
    constexpr int64_t kUnansweredNs = 2'000'000'000;
    for (const Dial* dial : dials) {
      const bool waits = dial->beganNs != kNoTimer && (dial->link == 0 || authentication_.connecting(dial->link));
      if (waits && network_.nowNs() - dial->beganNs >= kUnansweredNs) return dial;
    }
    return nullptr;
  }

 private:
  Network& network_;
  LinkAuthentication& authentication_;
  const MemberId id_;
  const Secret& secret_;
  int64_t nextNs_ = kNoTimer;
};

}  // namespace tutti
