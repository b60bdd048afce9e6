// The cost of a yield, measured as a thread yields, and how the thread waits by it.
//
// Ranks that share a core hand it on in less than a microsecond, and a core that is left idle comes back late; so alone
// on a machine they yield, and sleep only after long.  Beside a program that never waits a yield costs a slice of that
// program's time, which is milliseconds: every time where it is of the ranks' session, seldom where it is of another.
// A core that others keep busy does not go idle, so a rank that sleeps is woken at once.
//
// A thread finds out by timing one yield of a few.  Alone: nothing has cost a slice for long.  Suspects: a yield
// has.  Other ranks that work for as long look the same, so the thread yields on until the system has told who had the
// core.  Beside: another program had it, and yields cost a slice now and then; a wait that goes on sleeps as soon as
// its yields have cost what a wake-up does.  Dear: most yields cost a slice; waits sleep at once, until a while later a
// few yields are tried again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace tutti {

/// One thread.  Times are those of nowNs().
class TurnCost {
 public:
  enum class State : uint8_t { Alone, Suspects, Beside, Dear };
  State state() const { return state_; }

  /// Whether the yield that comes is to be timed.
  bool samples() { return state_ != State::Alone || ++yields_ % kYieldsPerSample == 0; }
  /// A yield that was timed has ended at nowNs after costNs.
  void sample(int64_t costNs, int64_t nowNs);
  /// A wait has slept for so long, which counts as time that the thread wanted a core.
  void slept(int64_t ns) { sleptNs_ += ns; }
  /// True if it is time to try some yields again, in the state Beside.  Only in the state Dear: a thread makes none
  /// there, and so would never learn that they have become cheap.
  bool triesAgain(int64_t nowNs);

  /// What a core has done since the machine started.
  struct CoreTime {
    int core = 0;
    int64_t idleNs = 0;
    int64_t tasksNs = 0;                  // all threads': neither interrupts' nor other virtual machines'
    std::map<int, int64_t> ranksNs = {};  // by thread: of ranks' threads that are on it now, their time on any core
    // The calling thread's: for how long it ran or was ready to.  Nothing: the system does not tell.
    std::optional<int64_t> wantedNs = std::nullopt;
  };
  /// Whether it is time to say that of this thread's core.
  bool wantsCoreTime(int64_t nowNs) const { return state_ != State::Alone && nowNs >= nextLookNs_; }
  /// nothing: the system does not tell, and the core is taken for one that others keep busy.
  void coreTime(std::optional<CoreTime> now, int64_t nowNs);

  /// A yield of so much was a slice of another program: kernels give 1.4 ms and more.
  static constexpr int64_t kSliceNs = 1'000'000;
  /// What a wake-up on a busy core costs.
  static constexpr int64_t kWakeUpNs = 30'000;
  static constexpr uint32_t kYieldsPerSample = 16;
  /// A finding holds for the least period.  The period doubles each time that the finding comes again.
  static constexpr int64_t kLeastPeriodNs = 100'000'000, kMostPeriodNs = 1'600'000'000;
  /// A core is looked at for so long; idle for more than a part of it, or left to other programs for less than a part,
  /// it is kept busy by none, and for a time, twice as long each time, nothing is made of slices.  The system counts in
  /// hundredths of a second.
  static constexpr int64_t kWindowNs = 100'000'000, kMostIdlePart = 6, kLeastOthersPart = 6;
  /// That there are other programs is known for so long; a slice is theirs then.
  static constexpr int64_t kKnownNs = 3'000'000'000;
  static constexpr int64_t kLeastDoubtNs = 1'600'000'000, kMostDoubtNs = 12'800'000'000;

 private:
  static constexpr int64_t kLongAgoNs = INT64_MIN / 2;  // no window has begun

  void becomeDear(int64_t nowNs);
  void becomeAlone(int64_t nowNs);
  /// The slices since the suspicion were of another program.
  void judge(int64_t nowNs);
  /// Whether other programs had little of the core between from_ and now, as far as the thread wanted it: what they did
  /// while it neither ran nor waited (for a file, for the next step of a program) was taken from nobody.
  bool othersHadLittle(const CoreTime& now, int64_t windowNs) const;

  State state_ = State::Alone;
  uint32_t yields_ = 0;
  int64_t knownNs_ = 0;  // until then there are other programs
  uint8_t recent_ = 0;   // the last yields, the latest in bit 0: whether it cost a slice
  int64_t untilNs_ = 0;
  int64_t periodNs_ = kLeastPeriodNs;
  std::optional<CoreTime> from_;  // at the start of the window
  int64_t fromNs_ = kLongAgoNs, nextLookNs_ = 0;
  int64_t sleptNs_ = 0;                            // since the window began
  int64_t doubtNs_ = kLeastDoubtNs, trustNs_ = 0;  // the next doubt; when slices count again
};

/// That of the calling thread.
TurnCost& turnCostOfThread();

/// The times of the calling thread's core, by /proc.  Nothing if that cannot be read, or if there are so many ranks
/// that reading it would take a good part of the time.
/// ranks: the processes of this host's ranks
std::optional<TurnCost::CoreTime> timeOfCore(std::span<const int> ranks);

}  // namespace tutti
