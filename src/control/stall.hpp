// How long a rank has waited for the same thing, as far as it has been asked about.
#pragma once

#include <set>
#include <utility>

#include "src/control/diagnosis.hpp"

namespace tutti {

/// A value without I/O.
class Stall {
 public:
  /// The rank waits, and asks about it.  A wait goes on as long as that is so, and the rank gets nowhere.
  void note(const RankReport& t, int64_t nowNs) {
    constexpr int64_t kMostBetweenNs = 2'500'000'000;
    Wait now{t.state.entered, t.gathers, t.state.message ? t.state.message->call.head : 0, nowNs, nowNs};
    const bool same = now.entered == wait_.entered && now.gathers == wait_.gathers && now.message == wait_.message;
    if (same && nowNs - wait_.lastNs < kMostBetweenNs) now.sinceNs = wait_.sinceNs;
    wait_ = now;
  }
  int64_t lastsNs(int64_t nowNs) const { return nowNs - wait_.sinceNs; }
  /// A rank that waits for so long says for whom.
  bool isLong(int64_t nowNs) const { return lastsNs(nowNs) >= 2'500'000'000; }
  /// Whether this rank is named for the first time: it may be late in every call, and that is known then.
  bool isNews(int suspect) { return suspected_.insert(suspect).second; }

 private:
  struct Wait {
    uint64_t entered = 0, gathers = 0, message = 0;  // what the rank had done before
    int64_t sinceNs = 0, lastNs = 0;
  } wait_;
  std::set<int> suspected_;
};

}  // namespace tutti
