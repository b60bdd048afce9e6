#include "perf/common/placement.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tutti::perf {
namespace {

constexpr uint32_t kRounds = 25, kTries = 8, kMeeting = 1;  // in the first round they meet
// The words' values: the number of the look, and within it that of the round.
constexpr uint32_t kOfLook = 1024, kStop = kOfLook - 1;
static_assert(kMeeting + kTries * kRounds < kStop);

constexpr double kMostUs = 2000;

double nowUs() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The word's value once it is `value` or a later one; `goesOn` is asked now and then.  Other ranks may have the core
/// of the one that is awaited, but a line crosses in far fewer looks.
template <class GoesOn>
uint32_t await(const std::atomic<uint32_t>& word, uint32_t value, GoesOn goesOn) {
  for (uint32_t looks = 1;; ++looks) {
    const uint32_t seen = word.load(std::memory_order_acquire);
    if (static_cast<int32_t>(seen - value) >= 0) return seen;
    if (looks % 65536 != 0) continue;
    if (!goesOn()) return seen;
    sched_yield();
  }
}

}  // namespace

double Placement::look(int rank) {
  begin_ += kOfLook;
  if (rank == 0) return ask();
  answer();
  return 0;
}

double Placement::ask() {
  uint32_t round = begin_;
  const auto pass = [&](auto goesOn) {
    words_->ping.store(++round, std::memory_order_release);
    return await(words_->pong, round, goesOn) == round;
  };
  pass([] { return true; });
  const double beginUs = nowUs();
  double leastUs = HUGE_VAL;
  for (uint32_t i = 0; i < kTries; ++i) {
    const double startUs = nowUs();
    for (uint32_t r = 0; r < kRounds; ++r) {
      if (pass([&] { return nowUs() - beginUs < kMostUs; })) continue;
      words_->ping.store(begin_ + kStop, std::memory_order_release);
      return 0;
    }
    leastUs = std::min(leastUs, (nowUs() - startUs) / kRounds / 2);
  }
  return leastUs;
}

void Placement::answer() {
  for (uint32_t round = begin_ + 1; round <= begin_ + kMeeting + kTries * kRounds; ++round) {
    const uint32_t seen = await(words_->ping, round, [] { return true; });
    if (seen != round) return;  // given up, and maybe rank 0 looks again already
    words_->pong.store(round, std::memory_order_release);
  }
}

}  // namespace tutti::perf
