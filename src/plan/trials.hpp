// Which way the calls of one kind take while the fastest of a few is being found, and what their times say.
//
// All ranks make the same calls in the same order, so each of them counts alone and takes the same way as the others.
// Now and then they have to compare their times, before the same call; what they agree on then depends on the figures
// of all.  Ranks that lay them open to each other do so one call earlier, and wait for nobody.
//
//   first calls       way 0, the planner's: who makes few calls, or small ones, pays nothing
//   comparison        says how long a call takes, and so how many there have to be before learning is worth its price
//   more calls        way 0, until the plans of all ways take a twentieth of the time of the calls
//   round 1           each way in turn, some calls in a row, the first of which are not timed
//   comparison        those that are far behind drop out
//   round 2           more turns of the others; before a turn of a slower one come so many calls by the
//                     fastest that what is lost stays a twentieth
//   comparison        the fastest is taken; times count relative to those of the fastest so far in the same turns
//   both memories     a rank calls in memory that peers map and in other memory: the planner's way for good, as
//                     what is fast in the one may be slow in the other
//   looks             after 256 calls, then four times as many and so on, all ways take turns again, as the machine or
//                     its load may have changed
//
// Pure; one thread at a time.
#pragma once

#include <algorithm>
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
  /// Figures that are known before the first call, in nanoseconds; the same on all ranks.
  struct Prices {
    int64_t planNs = 0;        // of making the plans of all ways, on every rank
    int64_t comparisonNs = 0;  // of the first comparison, on every rank
    double callNs = 1e9;       // of a call, as it is expected
    int untouched = 0;         // calls until a way's links have used all their memory once
  };
  Trials() : Trials(Prices{}) {}
  explicit Trials(const Prices& prices);

  /// Of one call.
  struct Turn {
    uint8_t way = 0;
    uint8_t block = 0;   // of that way, of a timed call
    bool timed = false;  // record() what it took
  };

  Wants wants() const {
    if (left_ > 0) return Wants::Nothing;
    return phase_ == Phase::Waiting ? Wants::Ways : Wants::Times;
  }
  /// The way of the next call; once it wants Nothing.
  uint8_t way() const { return way_; }
  /// Counts the next call.  Only when it wants Nothing.
  Turn take() {
    Turn turn{way_, 0, !inPause_ && left_ <= round_.timed};
    if (turn.timed) turn.block = static_cast<uint8_t>(next_ / tried_.size());  // dividing costs a small call 4 %
    if (--left_ == 0) change();
    return turn;
  }
  /// It has told what it wants, and hears the others before the next call: this one goes by the fastest so far.
  void putOff();
  /// How a timed call went on this rank.
  struct CallTime {
    int64_t ns = 0;
    int64_t beginNs = 0;  // when it began; 0: not known
    bool mapped = false;  // peers map its memory
  };
  /// Calls in groups have no record.
  void record(const Turn& turn, const CallTime& time);

  /// How many ways there are; of one, the trials are over for good.
  void offer(int nWays);
  /// This rank's times by way, in nanoseconds of one call (kNoTime: none), then how its calls were made.
  std::vector<uint64_t> times() const;
  static constexpr uint64_t kNoTime = 0;
  static constexpr size_t kFigures = kMostWays + 1;
  /// Those of all ranks, rank by rank.  leaders: some ranks may be calls ahead of others, so that the slowest rank
  /// says what a call costs; else the faster half does, which came late and waited little for others.  The slower half
  /// must not speak against it: a rank that comes late finds in its slots what others have put there meanwhile.
  void settle(std::span<const uint64_t> all, bool leaders);

  /// Whether the fastest has been found (and may be looked for again).
  bool settled() const { return phase_ == Phase::Settled || phase_ == Phase::Looking; }
  /// How many ways there are; 1 before offer().
  int nWays() const { return nWays_; }
  /// What was found, the fastest so far before.
  uint8_t taken() const { return taken_; }
  /// Whether all ranks' calls were in memory that nobody maps, as far as they were timed.
  bool inPlainMemory() const { return inPlainMemory_; }
  /// Whether they were in a row: each rank began the next as soon as one was over.
  bool inRow() const { return inRow_; }
  /// By the last comparison, in nanoseconds; kNoTime: it was not among those compared.
  uint64_t nsOf(uint8_t way) const { return ways_[way].ns; }

  static constexpr int64_t kFirstCalls = 32, kMostFirstCalls = 1 << 20, kFirstLook = 256, kMostBetweenLooks = 1 << 16;
  /// The share of all calls' time that learning may take.
  static constexpr double kPrice = 0.05;

 private:
  enum class Phase : uint8_t { First, Waiting, RoundOne, RoundTwo, Settled, Looking };
  static constexpr int kMostTurns = 5;
  /// Calls of one way in a row.  They wait for each other in turns, so that only all of them say what one costs.
  struct Block {
    int64_t ns = 0;
    int count = 0;
    double nsOfCall() const { return static_cast<double>(std::max<int64_t>(ns, 1)) / count; }
  };
  struct Way {
    std::array<Block, kMostTurns> blocks{};  // of this round
    uint64_t ns = kNoTime;                   // of one call, by the last comparison, ...
    uint64_t waitersNs = kNoTime;            // ... and to the ranks that waited
  };
  struct Round {
    int turns = 0;               // of each way
    int untimed = 0, timed = 0;  // calls of a block, one after the other
  };
  // How calls were made: in which memory, and most of them in a row.
  static constexpr uint64_t kPlain = 1, kMapped = 2, kInRow = 4;

  /// The faster half's mean, or the fastest of the slower half: one rank that something disturbed changes neither.
  enum class Over : uint8_t { Slowest, FasterHalf, SlowerHalf };
  static uint64_t overRanks(std::span<const uint64_t> all, size_t way, Over ranks);
  double besideTaken(uint8_t way) const;
  bool overtakes(uint8_t way) const;
  void takeTurns(Phase phase, int turns);
  void tryAll(Phase phase, int turns);
  void change();
  bool hadAllTurns() const { return next_ == tried_.size() * static_cast<size_t>(round_.turns); }
  uint8_t nextWay() const { return tried_[next_ % tried_.size()]; }
  void approach();
  int64_t pauseBefore(uint8_t way) const;
  void beginBlock();
  void await();
  void keep();
  void rest(uint8_t taken);

  int64_t planNs_;
  int untouched_;
  Phase phase_ = Phase::First;
  bool inPause_ = false;  // before a block, or put off
  bool inPlainMemory_ = true, inRow_ = false;
  uint64_t memory_ = 0;             // of timed calls: kPlain, kMapped
  int64_t endNs_ = 0;               // of the last timed call
  int calls_ = 0, callsInRow_ = 0;  // timed ones that followed a timed one; such in a row
  uint8_t nWays_ = 1;
  uint8_t way_ = 0, taken_ = 0;
  int64_t left_ = kFirstCalls;  // calls until something changes
  int64_t firstCalls_ = kFirstCalls;
  int64_t pause_ = kFirstLook;             // calls until the next look
  std::vector<uint8_t> tried_{0};          // in this round
  size_t next_ = 0;                        // the block of this round that is under way
  Round round_ = {1, kFirstCalls - 8, 8};  // no turns between rounds
  std::array<Way, kMostWays> ways_;
};

}  // namespace tutti
