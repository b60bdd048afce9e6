#include "src/exec/spin_cost.hpp"

#include <cstdio>
#include <memory>
#include <utility>

namespace tutti {
namespace {

/// The second number of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
std::optional<int64_t> runDelayOfThread() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/thread-self/schedstat", "re"), std::fclose);
  long long ran = 0, delay = 0;
  if (file == nullptr || std::fscanf(file.get(), "%lld %lld", &ran, &delay) != 2) return std::nullopt;
  return delay;
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
