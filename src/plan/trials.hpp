// Which way the calls of one kind take while the fastest of a few is being found, and what their times say.
//
// All ranks make the same calls in the same order, so each of them counts alone and takes the same way as the others.
// Twice they have to compare their times, before the same call; what they agree on then depends on the figures of all.
//
//   first calls       way 0, the planner's: who makes few calls pays nothing
//   round 1           each way in turn, a few calls in a row, the first of which are not timed
//   comparison        the slow ones drop out
//   round 2           the others once more, longer
//   comparison        the fastest is taken
//   looks             after 256 calls, then four times as many and so on, those that were near it take turns again, as
//                     the machine or its load may have changed
//
// Pure; one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

class Trials {
 public:
  static constexpr int kMostWays = 5;
  /// What has to be said before the next call.
  enum class Wants : uint8_t {
    Nothing,
    Ways,   // offer()
    Times,  // settle()
  };
  /// Of one call.
  struct Turn {
    uint8_t way = 0;
    bool timed = false;  // record() what it took
  };

  Wants wants() const {
    if (left_ > 0) return Wants::Nothing;
    return phase_ == Phase::First ? Wants::Ways : Wants::Times;
  }
  /// The way of the next call; once it wants Nothing.
  uint8_t way() const { return way_; }
  /// Counts the next call.  Only when it wants Nothing.
  Turn take() {
    const Turn turn{way_, trying_ && left_ <= timed_};
    if (--left_ == 0) change();
    return turn;
  }
  /// What a timed call took here.  Calls without a record (in groups) say nothing.
  void record(uint8_t way, int64_t ns);

  /// How many ways there are; of one, the trials are over for good.
  void offer(int nWays);
  /// What this rank has measured, by way; kNoTime: nothing.  nanoseconds of one call
  std::vector<uint64_t> times() const;
  static constexpr uint64_t kNoTime = 0;
  /// Those of all ranks, rank by rank.  leaders: some ranks may be calls ahead of others, so that the slowest rank
  /// says what a call costs; else the faster half does, which came late and waited little for others.
  void settle(std::span<const uint64_t> all, bool leaders);

  /// Whether the fastest has been found (and may be looked for again).
  bool settled() const { return phase_ == Phase::Settled || phase_ == Phase::Looking; }
  /// What was found, 0 before.
  uint8_t taken() const { return taken_; }
  /// By the last comparison, in nanoseconds; kNoTime: it was not among those compared.
  uint64_t nsOf(uint8_t way) const { return compared_[way]; }

  static constexpr int64_t kFirstCalls = 16, kFirstLook = 256, kMostBetweenLooks = 1 << 16;

 private:
  enum class Phase : uint8_t { First, RoundOne, RoundTwo, Settled, Looking };
  /// Calls of one way in a row.  They wait for each other in turns, so that only all of them say what one costs.
  struct Block {
    int64_t ns = 0;
    int count = 0;
  };
  struct Round {
    int untimed, timed;  // calls of a block
  };
  static const Round kRoundOne, kRoundTwo;

  static uint64_t overRanks(std::span<const uint64_t> all, size_t way, bool slowest);
  void tryAll(Phase phase, const Round& round);
  void change();
  void beginBlock();
  void endBlock();
  void rest(uint8_t taken);
  void keep(double factor, size_t most);

  Phase phase_ = Phase::First;
  bool trying_ = false;  // calls of a block are under way
  uint8_t way_ = 0, taken_ = 0;
  int64_t left_ = kFirstCalls;  // calls until something changes
  int64_t timed_ = 0;           // the last ones of a block
  int64_t pause_ = kFirstLook;  // calls until the next look
  std::vector<uint8_t> tried_;  // in this round
  size_t next_ = 0;             // of those
  Round round_{};
  std::array<Block, kMostWays> blocks_{};       // of this round
  std::array<uint64_t, kMostWays> measured_{};  // a call of the better block of each way
  std::array<uint64_t, kMostWays> compared_{};
};

}  // namespace tutti
