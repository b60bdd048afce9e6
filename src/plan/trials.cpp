#include "src/plan/trials.hpp"

#include <algorithm>
#include <numeric>

#include "src/base/assert.hpp"

namespace tutti {
namespace {

// Ways that go on to the next round: how much slower than the fastest they may be, and how many.
constexpr double kGoesOn = 2;
constexpr size_t kMostGoOn = 3;
// By so much another way has to be faster than the one that is taken: less is noise.
constexpr double kWorthIt = 0.97;

}  // namespace

// The first calls of a way make its plan, and touch memory that links have not used before (the slots of a FIFO).
constexpr Trials::Round Trials::kRoundOne = {4, 3}, Trials::kRoundTwo = {1, 5};

void Trials::record(uint8_t way, int64_t ns) {
  blocks_[way].ns += ns;
  ++blocks_[way].count;
}

void Trials::offer(int nWays) {
  TUTTI_ASSERT(phase_ == Phase::First && nWays <= kMostWays);
  if (nWays < 2) {
    phase_ = Phase::Settled;
    left_ = INT64_MAX;
    return;
  }
  tried_.resize(static_cast<size_t>(nWays));
  std::iota(tried_.begin(), tried_.end(), uint8_t{0});
  tryAll(Phase::RoundOne, kRoundOne);
}

void Trials::tryAll(Phase phase, const Round& round) {
  phase_ = phase;
  round_ = round;
  blocks_.fill({});
  next_ = 0;
  beginBlock();
}

/// left_ calls are over.
void Trials::change() {
  if (phase_ == Phase::First) return;
  if (phase_ != Phase::Settled) return endBlock();
  measured_.fill(kNoTime);
  tryAll(Phase::Looking, kRoundTwo);
}

void Trials::beginBlock() {
  trying_ = true;
  way_ = tried_[next_];
  left_ = round_.untimed + round_.timed;
  timed_ = round_.timed;
}

/// The next way, or a comparison.
void Trials::endBlock() {
  if (++next_ < tried_.size()) return beginBlock();
  trying_ = false;
  way_ = taken_;
}

std::vector<uint64_t> Trials::times() const {
  std::vector<uint64_t> times(measured_.begin(), measured_.end());
  for (const uint8_t way : tried_) {
    const Block& block = blocks_[way];
    if (block.count == 0) continue;
    const auto ns = static_cast<uint64_t>(std::max<int64_t>(block.ns / block.count, 1));
    times[way] = times[way] == kNoTime ? ns : std::min(times[way], ns);
  }
  return times;
}

/// Of the slowest rank, or the mean of the faster half.
uint64_t Trials::overRanks(std::span<const uint64_t> all, size_t way, bool slowest) {
  std::vector<uint64_t> times;
  for (size_t at = way; at < all.size(); at += kMostWays) {
    if (all[at] != kNoTime) times.push_back(all[at]);
  }
  if (times.empty()) return kNoTime;
  std::ranges::sort(times);
  if (slowest) return times.back();
  times.resize((times.size() + 1) / 2);
  return std::accumulate(times.begin(), times.end(), uint64_t{0}) / times.size();
}

void Trials::settle(std::span<const uint64_t> all, bool leaders) {
  compared_.fill(kNoTime);
  const std::vector<uint64_t> mine = times();
  std::ranges::copy(mine, measured_.begin());
  for (size_t way = 0; way < kMostWays; ++way) compared_[way] = overRanks(all, way, leaders);
  std::erase_if(tried_, [&](uint8_t way) { return compared_[way] == kNoTime; });
  if (tried_.empty()) return rest(taken_);
  std::ranges::stable_sort(tried_, {}, [&](uint8_t way) { return compared_[way]; });
  if (phase_ == Phase::RoundOne) {
    keep(kGoesOn, kMostGoOn);
    if (tried_.size() > 1) return tryAll(Phase::RoundTwo, kRoundTwo);
  }
  const uint64_t now = compared_[taken_], best = compared_[tried_[0]];
  const bool better = now == kNoTime || static_cast<double>(best) < kWorthIt * static_cast<double>(now);
  rest(better ? tried_[0] : taken_);
}

/// Of tried_, the fastest first.
void Trials::keep(double factor, size_t most) {
  const double limit = factor * static_cast<double>(compared_[tried_[0]]);
  std::erase_if(tried_, [&](uint8_t way) { return static_cast<double>(compared_[way]) > limit; });
  if (tried_.size() > most) tried_.resize(most);
}

void Trials::rest(uint8_t taken) {
  taken_ = way_ = taken;
  trying_ = false;
  phase_ = Phase::Settled;
  if (tried_.empty()) tried_ = {taken};
  keep(kGoesOn, kMostGoOn);
  if (std::ranges::find(tried_, taken) == tried_.end()) tried_.push_back(taken);
  left_ = tried_.size() > 1 ? pause_ : INT64_MAX;
  pause_ = std::min(pause_ * 4, kMostBetweenLooks);
}

}  // namespace tutti
