// What was fastest, as measured: the ways that tutti-tune found by running all of them, and those that jobs learned
// from their own calls (src/plan/trials.hpp).
//
// Where there is such a figure for a call's ranks, collective and size, the planner takes it instead of what it expects
// by running schedules.  Tuning is a value, kept in two files beside the calibration; rank 0's is handed to all at
// init. Its text:
//
//   tutti-tuning 1
//   cpu Intel(R) Xeon(R) Processor @ 2.50GHz
//   cores 2
//   host build-7
//   ranks 4 1 shm-processes - 2                   ranks, hosts, links inside and between hosts, ranks per core
//   best allreduce 65536 twoshot slots 28.2       bytes of a vector or block, algorithm, protocol, microseconds, and
//                                                 "joined" if chunks share messages
//   learned allreduce 49152 ring slots 20.1       the same of a job's calls, for about this size
//   send 65536 direct 3.2                         between two of these ranks, one way
//   learned send 49152 slots 2.9                  the same of a job's sends
//   end
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "src/base/status.hpp"
#include "src/cost/calibration.hpp"

namespace tutti {

struct PlanRequest;

/// Ranks among which figures hold.
struct TunedRanks {
  int nRanks = 0;
  int nHosts = 1;            // with as many ranks each
  std::string intra, inter;  // LinkProfile::key; empty: there are none
  double perCore = 1;
  bool operator==(const TunedRanks&) const = default;
};
/// None: hosts have different numbers of ranks.
std::optional<TunedRanks> tunedRanks(const PlanRequest& request);

/// The fastest way of one collective and size.
struct TunedWay {
  Collective collective = Collective::AllReduce;
  size_t bytes = 0;  // Shape::bytes
  std::string algorithm;
  Protocol protocol = Protocol::Slots;
  double us = 0;
  bool joined = false;  // in messages of several chunks
  bool operator==(const TunedWay&) const = default;
};

/// The faster way of a message between two ranks of a host.
struct TunedSend {
  size_t bytes = 0;
  Protocol protocol = Protocol::Slots;
  double us = 0;
  bool operator==(const TunedSend&) const = default;
};

struct Tuning {
  static constexpr int kVersion = 1;
  struct Set {
    TunedRanks ranks;
    std::vector<TunedWay> ways;
    std::vector<TunedSend> sends;
    std::vector<TunedWay> learned = {};  // the latest last
    std::vector<TunedSend> learnedSends = {};
    bool operator==(const Set&) const = default;
  };
  MachineIdentity machine;
  std::vector<Set> sets;
  bool operator==(const Tuning&) const = default;

  /// Puts the set in the place of one for the same ranks.
  void put(Set set);
  /// Puts a learned way in the place of one for the same collective and bytes.  Of too many the oldest go.
  void learn(const TunedRanks& ranks, const TunedWay& way);
  void learn(const TunedRanks& ranks, const TunedSend& send);
  static constexpr size_t kMostLearned = 128;     // of a set, ways and sends each
  static constexpr size_t kMostLearnedSets = 32;  // those that learned last

 private:
  Set& latest(const TunedRanks& ranks);
};

std::string toText(const Tuning& tuning);
/// Errors: InvalidArgument with the line and what is wrong with it.  Safe on any bytes.
Result<Tuning> parseTuning(std::string_view text);
/// Longer texts are refused unread.
inline constexpr size_t kMostTuningBytes = 1 << 20;

/// The way that was learned for about this size; else the way of the nearest tuned size, with a time between those of
/// the two nearest.  None: nothing was measured among such ranks for this collective; or the call is of a kind that is
/// not measured (blocks of different sizes, no bytes).
std::optional<TunedWay> tunedFor(const Tuning& tuning, const PlanRequest& request);

/// The protocol that was learned for about this size; else that of the nearest tuned size, with a time between those of
/// the two nearest.  None: nothing was measured among such ranks.
std::optional<TunedSend> tunedSend(const Tuning& tuning, const TunedRanks& ranks, size_t bytes);
/// Whether sends of just this size were learned.
bool keepsSend(const Tuning& tuning, const TunedRanks& ranks, size_t bytes);

// ---- In files.

/// Whose ways a file has: tutti-tune's, or those that jobs learned.
enum class TuningFile : uint8_t { Tuned, Learned };
/// Beside the calibration: its path and ".tuned" or ".learned".  Empty: nowhere.
std::string tuningPath(const MachineIdentity& machine, TuningFile file = TuningFile::Tuned);
/// One file's tuning of this machine; empty if there is none, and, after a warning, if the file is no good.
Tuning tuningIn(const MachineIdentity& machine, TuningFile file);
/// Both.
Tuning keptTuning(const MachineIdentity& machine);
/// Adds to what jobs learned before.  Of two jobs that do so at the same time, one may be forgotten.  Errors:
/// SystemError.
Status keepLearned(const MachineIdentity& machine, const TunedRanks& ranks, const std::vector<TunedWay>& ways,
                   const std::vector<TunedSend>& sends = {});
/// All ways of these ranks have been measured anew.  Errors: SystemError.
Status forgetLearned(const MachineIdentity& machine, const TunedRanks& ranks);

}  // namespace tutti
