#include "src/exec/spin_cost.hpp"

#include <algorithm>
#include <utility>

namespace tutti {
void SpinCost::look(int64_t nowNs) {
  const std::optional<ThreadTime> time = time_();
  const std::optional<ThreadTime> before = std::exchange(before_, time);
  bool delayed = false;
  if (time && before && nowNs >= aloneUntilNs_) {
    const int64_t delayNs = time->delayNs - before->delayNs, turns = time->turns - before->turns;
    delayed = delayNs * kDelayedPart >= nowNs - lookedNs_ && delayNs >= turns * kLeastTurnNs;
  }
  lookedNs_ = nowNs;
  nextLookNs_ = nowNs + kBetweenLooksNs;
  shared_ = delayed && !othersHadLittle(*time, nowNs);
  if (!delayed) window_.reset();
}

bool SpinCost::othersHadLittle(const ThreadTime& time, int64_t nowNs) {
  if (window_ && nowNs - window_->beganNs < kWindowNs) return false;
  const std::optional<TurnCost::CoreTime> core = core_();
  const std::optional<Window> window = std::move(window_);
  window_ = core ? std::optional(Window{*core, time.ranNs, nowNs}) : std::nullopt;
  if (!core || !window || core->core != window->core.core) return false;
  const int64_t others = core->tasksNs - window->core.tasksNs - (time.ranNs - window->ranNs);
  const bool little = others * kDelayedPart < nowNs - window->beganNs;
  if (little) aloneUntilNs_ = nowNs + trustNs_;
  trustNs_ = little ? std::min(2 * trustNs_, kMostTrustNs) : kLeastTrustNs;
  return little;
}

SpinCost& spinCostOfThread() {
  static thread_local SpinCost cost(timeOfThread, [] { return timeOfCore({}); });
  return cost;
}

}  // namespace tutti
