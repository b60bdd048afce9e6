#include "src/exec/spin_cost.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "src/base/fd.hpp"

namespace tutti {
namespace {

/// The second number of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
std::optional<int64_t> runDelayOfThread() {
  const Fd file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));  // a stream would take memory in a call
  std::array<char, 128> text = {};
  if (!file.valid() || read(file.get(), text.data(), text.size() - 1) <= 0) return std::nullopt;
  long long ran = 0, delay = 0;
  if (std::sscanf(text.data(), "%lld %lld", &ran, &delay) != 2) return std::nullopt;
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
