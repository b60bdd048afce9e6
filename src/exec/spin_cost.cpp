#include "src/exec/spin_cost.hpp"

#include <utility>

#include "src/exec/thread_time.hpp"

namespace tutti {
namespace {

std::optional<int64_t> runDelayOfThread() {
  const std::optional<ThreadTime> time = timeOfThread();
  return time ? std::optional(time->delayNs) : std::nullopt;
}

}  // namespace

void SpinCost::look(int64_t nowNs) {
  const std::optional<int64_t> delay = runDelay_();
  const std::optional<int64_t> before = std::exchange(delayNs_, delay);
  shared_ = delay && before && (*delay - *before) * kDelayedPart >= nowNs - lookedNs_;
  lookedNs_ = nowNs;
  nextLookNs_ = nowNs + kBetweenLooksNs;
}

SpinCost& spinCostOfThread() {
  static thread_local SpinCost cost(runDelayOfThread);
  return cost;
}

}  // namespace tutti
