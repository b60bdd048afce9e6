#include "src/exec/turn_cost.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>

namespace tutti {
namespace {

// So many of the last eight yields make them dear: two in a row do, by chance a yield in hundreds.
constexpr int kDear = 2;

}  // namespace

void TurnCost::sample(int64_t costNs, int64_t nowNs) {
  if (state_ == State::Alone && nowNs < trustNs_) return;
  const bool slice = costNs >= kSliceNs;
  recent_ = static_cast<uint8_t>(recent_ << 1 | (slice ? 1 : 0));
  if (slice) {
    if (state_ == State::Alone) from_.reset(), nextIdleNs_ = nowNs;
    if (std::popcount(recent_) >= kDear) return becomeDear(nowNs);
    if (state_ == State::Alone) state_ = State::Beside;
    untilNs_ = nowNs + kLeastPeriodNs;
  } else if (state_ == State::Beside && nowNs >= untilNs_) {
    state_ = State::Alone;
    periodNs_ = kLeastPeriodNs;
  }
}

void TurnCost::becomeDear(int64_t nowNs) {
  state_ = State::Dear;
  recent_ = 0;
  untilNs_ = nowNs + periodNs_;
  periodNs_ = std::min(2 * periodNs_, kMostPeriodNs);
}

bool TurnCost::triesAgain(int64_t nowNs) {
  if (nowNs < untilNs_) return false;
  state_ = State::Beside;
  untilNs_ = nowNs + kLeastPeriodNs;
  return true;
}

void TurnCost::idle(const std::optional<Idle>& now, int64_t nowNs) {
  nextIdleNs_ = nowNs + kWindowNs;
  if (now && from_ && now->core == from_->core && nowNs - fromNs_ >= kWindowNs) {
    if ((now->ns - from_->ns) * kMostIdlePart > nowNs - fromNs_) {
      state_ = State::Alone;
      recent_ = 0;
      periodNs_ = kLeastPeriodNs;
      trustNs_ = nowNs + doubtNs_;
      doubtNs_ = std::min(2 * doubtNs_, kMostDoubtNs);
    } else {
      doubtNs_ = kLeastDoubtNs;
    }
  }
  from_ = now;
  fromNs_ = nowNs;
}

TurnCost& turnCostOfThread() {
  static thread_local TurnCost cost;
  return cost;
}

std::optional<TurnCost::Idle> coreIdle() {
  const int core = sched_getcpu();
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/stat", "re"), std::fclose);
  char line[256];
  while (core >= 0 && file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr) {
    int number = -1;
    long long ticks = 0, waits = 0;  // user, nice, system, idle, waiting for a disk
    if (std::sscanf(line, "cpu%d %*d %*d %*d %lld %lld", &number, &ticks, &waits) != 3 || number != core) continue;
    return TurnCost::Idle{core, (ticks + waits) * (1'000'000'000 / sysconf(_SC_CLK_TCK))};
  }
  return std::nullopt;
}

}  // namespace tutti
