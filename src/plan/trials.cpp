#include "src/plan/trials.hpp"

#include <algorithm>
#include <numeric>

#include "src/base/assert.hpp"

namespace tutti {
namespace {

// Ways that go on to the next round may be so much slower than the fastest: one turn may have met with anything.
constexpr double kGoesOn = 3;
// By so much another way has to be faster than the one that is taken: less is noise.
constexpr double kWorthIt = 0.97;
// And for those who wait at most so much slower.
constexpr double kNotAgainstIt = 1.1;
// Ranks run ahead of each other, and hand cores to each other: a block has to be longer than that, in time or in calls.
constexpr uint64_t kBlockNs = 200'000;
constexpr int kLeastTimed = 4, kMostTimed = 64;
// A rank that goes on with the next call within half the time of one does nothing in between; nor within so little,
// which clocks and loops take.
constexpr int64_t kLeastAwayPart = 2, kLeastAwayNs = 200;
// The part of a call that a way is expected to lose as long as it has not been tried.
constexpr double kExpectedLoss = 0.1;

double medianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

Trials::Trials(const Prices& prices) : planNs_(prices.planNs), untouched_(prices.untouched) {
  const double enough = static_cast<double>(prices.comparisonNs) / (kPrice * std::max(prices.callNs, 1.0));
  firstCalls_ =
      static_cast<int64_t>(std::clamp(enough, static_cast<double>(kFirstCalls), static_cast<double>(kMostFirstCalls)));
  firstCalls_ = std::max<int64_t>(firstCalls_, untouched_ + round_.timed);
  left_ = firstCalls_;
  round_.untimed = static_cast<int>(firstCalls_) - round_.timed;
}

void Trials::record(const Turn& turn, const CallTime& time) {
  memory_ |= time.mapped ? kMapped : kPlain;
  Block& block = ways_[turn.way].blocks[turn.block];
  if (time.beginNs != 0 && block.count > 0) {
    ++calls_;
    const int64_t awayNs = time.beginNs - endNs_;
    callsInRow_ += awayNs < std::max(time.ns / kLeastAwayPart, kLeastAwayNs) ? 1 : 0;
  }
  endNs_ = time.beginNs + time.ns;
  block.ns += time.ns;
  ++block.count;
}

void Trials::offer(int nWays) {
  TUTTI_ASSERT(phase_ == Phase::Waiting && nWays <= kMostWays);
  if (nWays < 2) return rest(taken_);
  nWays_ = static_cast<uint8_t>(nWays);
  tryAll(Phase::RoundOne, 1);
}

void Trials::tryAll(Phase phase, int turns) {
  tried_.resize(nWays_);
  std::iota(tried_.begin(), tried_.end(), uint8_t{0});
  takeTurns(phase, turns);
}

/// Begins a round of those in tried_.  The first calls of a turn make the plan of its way, and touch memory that links
/// have not used before (the slots of a FIFO).
void Trials::takeTurns(Phase phase, int turns) {
  phase_ = phase;
  const auto inTime = static_cast<int>(kBlockNs / std::max<uint64_t>(ways_[taken_].ns, 1));
  const int timed = ways_[taken_].ns == kNoTime ? kLeastTimed : std::clamp(inTime, kLeastTimed, kMostTimed);
  const int untouched = phase == Phase::RoundOne ? untouched_ : 0;
  round_ = {turns, std::max({kLeastTimed, timed / 4, untouched}), timed};
  for (Way& way : ways_) way.blocks = {};
  next_ = 0;
  approach();
}

/// left_ calls are over.
void Trials::change() {
  if (phase_ == Phase::First || phase_ == Phase::Waiting) return;
  if (phase_ == Phase::Settled) return tryAll(Phase::Looking, kMostTurns);
  if (hadAllTurns()) return;  // put off
  if (inPause_) return beginBlock();
  ++next_;
  if (!hadAllTurns()) return approach();
  way_ = taken_;
}

void Trials::putOff() {
  TUTTI_ASSERT(left_ == 0);
  inPause_ = true;
  left_ = 1;
}

/// Begins the next block, or the pause before it.
void Trials::approach() {
  left_ = pauseBefore(nextWay());
  if (left_ == 0) return beginBlock();
  inPause_ = true;
  way_ = taken_;
}

/// As many calls as make up for a block of a slower way.
int64_t Trials::pauseBefore(uint8_t way) const {
  const auto slow = static_cast<double>(ways_[way].ns), fast = static_cast<double>(ways_[taken_].ns);
  if (way == taken_ || ways_[taken_].ns == kNoTime) return 0;
  const double lost = ways_[way].ns == kNoTime ? kExpectedLoss : std::max(slow / fast - 1, 0.0);
  return static_cast<int64_t>(lost / kPrice * (round_.untimed + round_.timed));
}

void Trials::beginBlock() {
  inPause_ = false;
  way_ = nextWay();
  left_ = round_.untimed + round_.timed;
}

/// By turns that both ways have had: the median of what it took relative to the way that is taken.  A machine may
/// become several times as slow for some turns (cores of a virtual machine that move), and would be another one to each
/// way.
double Trials::besideTaken(uint8_t way) const {
  std::vector<double> ratios;
  for (size_t turn = 0; turn < kMostTurns; ++turn) {
    const Block &own = ways_[way].blocks[turn], &taken = ways_[taken_].blocks[turn];
    if (own.count > 0 && taken.count > 0) ratios.push_back(own.nsOfCall() / taken.nsOfCall());
  }
  return ratios.empty() ? 0 : medianOf(std::move(ratios));
}

std::vector<uint64_t> Trials::times() const {
  std::vector<uint64_t> times(kMostWays, kNoTime);
  const auto medianOfBlocks = [&](uint8_t way) {
    std::vector<double> ns;
    for (const Block& block : ways_[way].blocks) {
      if (block.count > 0) ns.push_back(block.nsOfCall());
    }
    return ns.empty() ? 0 : medianOf(std::move(ns));
  };
  for (const uint8_t way : tried_) {
    const double beside = besideTaken(way);
    const double ns = beside > 0 ? beside * medianOfBlocks(taken_) : medianOfBlocks(way);
    if (ns > 0) times[way] = std::max<uint64_t>(static_cast<uint64_t>(ns), 1);
  }
  times.push_back(memory_ | (2 * callsInRow_ > calls_ ? kInRow : 0));
  return times;
}

uint64_t Trials::overRanks(std::span<const uint64_t> all, size_t way, Over ranks) {
  std::vector<uint64_t> times;
  for (size_t at = way; at < all.size(); at += kFigures) {
    if (all[at] != kNoTime) times.push_back(all[at]);
  }
  if (times.empty()) return kNoTime;
  std::ranges::sort(times);
  if (ranks == Over::Slowest) return times.back();
  if (ranks == Over::SlowerHalf) return times[times.size() / 2];
  times.resize((times.size() + 1) / 2);
  return std::accumulate(times.begin(), times.end(), uint64_t{0}) / times.size();
}

/// Whether it is clearly faster than the way that is taken.
bool Trials::overtakes(uint8_t way) const {
  if (ways_[taken_].ns == kNoTime) return true;
  const auto below = [&](uint64_t Way::*time, double part) {
    return static_cast<double>(ways_[way].*time) < part * static_cast<double>(ways_[taken_].*time);
  };
  return below(&Way::ns, kWorthIt) && below(&Way::waitersNs, kNotAgainstIt);
}

void Trials::settle(std::span<const uint64_t> all, bool leaders) {
  bool mixed = false;
  inPlainMemory_ = inRow_ = true;
  for (size_t at = kMostWays; at < all.size(); at += kFigures) {
    const bool plain = (all[at] & kPlain) != 0, mapped = (all[at] & kMapped) != 0;
    mixed = mixed || (plain && mapped);
    inPlainMemory_ = inPlainMemory_ && !mapped;
    inRow_ = inRow_ && (all[at] & kInRow) != 0;
  }
  calls_ = callsInRow_ = 0;
  if (mixed) {
    nWays_ = 1;
    return rest(0);
  }
  for (const uint8_t way : tried_) {
    ways_[way].ns = overRanks(all, way, leaders ? Over::Slowest : Over::FasterHalf);
    ways_[way].waitersNs = overRanks(all, way, leaders ? Over::Slowest : Over::SlowerHalf);
  }
  std::erase_if(tried_, [&](uint8_t way) { return ways_[way].ns == kNoTime; });
  if (tried_.empty()) return rest(taken_);
  if (phase_ == Phase::First) return await();
  std::ranges::stable_sort(tried_, {}, [&](uint8_t way) { return ways_[way].ns; });
  const auto found = std::ranges::find_if(tried_, [&](uint8_t way) { return overtakes(way); });
  if (found != tried_.end()) taken_ = *found;
  phase_ == Phase::RoundOne ? keep() : rest(taken_);
}

/// Goes on with those of tried_, the fastest first, that are worth another turn.
void Trials::keep() {
  const double limit = kGoesOn * static_cast<double>(ways_[tried_[0]].ns);
  std::erase_if(tried_, [&](uint8_t way) { return static_cast<double>(ways_[way].ns) > limit; });
  if (std::ranges::find(tried_, taken_) == tried_.end()) tried_.push_back(taken_);
  if (tried_.size() == 1) return rest(taken_);
  takeTurns(Phase::RoundTwo, kMostTurns);
}

/// Until the calls have taken so long that planning the other ways is a small share of it.
void Trials::await() {
  const double enough = static_cast<double>(planNs_) / (kPrice * static_cast<double>(ways_[0].ns));
  phase_ = Phase::Waiting;
  round_ = {};
  const auto most = static_cast<double>(INT64_MAX / 2);
  left_ = std::max<int64_t>(static_cast<int64_t>(std::min(enough, most)) - firstCalls_, 0);
}

void Trials::rest(uint8_t taken) {
  taken_ = way_ = taken;
  tried_ = {taken};
  next_ = 0;
  round_ = {};
  phase_ = Phase::Settled;
  left_ = nWays_ > 1 ? pause_ : INT64_MAX;
  pause_ = std::min(pause_ * 4, kMostBetweenLooks);
}

}  // namespace tutti
