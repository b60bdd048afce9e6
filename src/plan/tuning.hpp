// What was fastest, as measured: the ways that tutti-tune found by running all of them.
//
// Where there is such a figure for a call's ranks, collective and size, the planner takes it instead of what it expects
// by running schedules.  Tuning is a value, kept beside the calibration; rank 0's is handed to all at init.  Its text:
//
//   tutti-tuning 1
//   cpu Intel(R) Xeon(R) Processor @ 2.50GHz
//   cores 2
//   host build-7
//   ranks 4 1 shm-processes - 2                   ranks, hosts, links inside and between hosts, ranks per core
//   best allreduce 65536 twoshot slots 28.2       bytes of a vector or block, algorithm, protocol, microseconds, and
//                                                 "joined" if chunks share messages
//   send 65536 direct 3.2                         between two of these ranks, one way
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
    bool operator==(const Set&) const = default;
  };
  MachineIdentity machine;
  std::vector<Set> sets;
  bool operator==(const Tuning&) const = default;

  /// Puts the set in the place of one for the same ranks.
  void put(Set set);
};

std::string toText(const Tuning& tuning);
/// Errors: InvalidArgument with the line and what is wrong with it.  Safe on any bytes.
Result<Tuning> parseTuning(std::string_view text);
/// Longer texts are refused unread.
inline constexpr size_t kMostTuningBytes = 1 << 20;

/// Of the sizes that were measured, the way of the nearest, and the time between the two nearest.  None: nothing was
/// measured among such ranks for this collective; or the call is of a kind that was not measured (blocks of different
/// sizes, no bytes).
std::optional<TunedWay> tunedFor(const Tuning& tuning, const PlanRequest& request);

/// Of the sizes that were measured among such ranks, the way of the nearest, and the time between the two nearest.
/// None: nothing was measured.
std::optional<TunedSend> tunedSend(const Tuning& tuning, const TunedRanks& ranks, size_t bytes);

/// Beside the calibration: its path and ".tuned".  Empty: nowhere.
std::string tuningPath(const MachineIdentity& machine);
/// What is kept for this machine; empty if nothing is, and, after a warning, if the file is no good.
Tuning keptTuning(const MachineIdentity& machine);

}  // namespace tutti
