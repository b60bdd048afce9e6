#include "src/exec/spin_cost.hpp"

#include <utility>

namespace tutti {

void SpinCost::look(int64_t nowNs) {
  const std::optional<ThreadTime> time = time_();
  const std::optional<ThreadTime> before = std::exchange(before_, time);
  shared_ = false;
  if (time && before) {
    const int64_t delayNs = time->delayNs - before->delayNs;
    const int64_t turns = time->turns - before->turns;
    shared_ = delayNs * kDelayedPart >= nowNs - lookedNs_ && delayNs >= turns * kLeastTurnNs;
  }
  lookedNs_ = nowNs;
  nextLookNs_ = nowNs + kBetweenLooksNs;
}

SpinCost& spinCostOfThread() {
  static thread_local SpinCost cost(timeOfThread);
  return cost;
}

}  // namespace tutti
