// What this machine's links and memory cost, as measured: the numbers behind every choice of the planner.
//
// Calibration is a value.  One rank has it (measured, or read from a file) and hands it to the others at init, so that
// all ranks compare the same numbers.  Its text form is one line per figure:
//
//   tutti-calibration 11
//   cpu Intel(R) Xeon(R) Processor @ 2.50GHz
//   cores 2
//   host build-7
//   measured 1 0.02 complete                       how often; the part of the processors that others had; or "cut";
//                                                  or "first": a later start is to measure the rest
//   copy-gbps 11.2 6.1                             near and far
//   reduce-gbps 19.5 7.5                           near and far
//   caches 0.4 0.6 0.9 1 1                         how far memory of each of kCacheFootprints is
//   copy-loops 1 0 1                               by memcpy (0) or by the loop, for each of kCopyFootprints
//   stream-from-bytes 2097152
//   hand-over-us 2.2                               0: not measured
//   link shm-threads slots 0.21 9.8 131072        kind, protocol, latency us, GB/s, most bytes of a message
//   alone shm-threads slots 0.2 0.2 0.4 0.8 0 0 0 0 us of a message of each of kMessageSizes; 0: not measured
//   stream shm-threads slots 9.9 4.4 8.5 3.1       kind, protocol, GB/s near one way and both ways, far the same
//   here shm-threads slots 0.08 18.2                latency us, GB/s where one core has both ends
//   fresh shm-threads direct 8.9                    GB/s of what its owner has just written
//   end
//
// A text from elsewhere (another machine, another version, cut short, figures out of range) is refused with a reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/copy.hpp"
#include "src/base/status.hpp"
#include "src/cost/link_cost.hpp"
#include "src/cost/machine_identity.hpp"

namespace tutti {

/// Footprints between those, at which the slowing down of copies says how far memory is.
inline constexpr std::array<size_t, 5> kCacheFootprints = {3 << 20, 4 << 20, 6 << 20, 8 << 20, 16 << 20};

/// Figures that others disturbed more than this may be off by any factor.
inline constexpr double kMostDisturbed = 0.1;

struct Calibration {
  static constexpr int kVersion = 11;
  MachineIdentity machine;
  int times = 0;         // measured so often, of which these are the best figures; 0: built in
  double disturbed = 0;  // the part of this process's processors that others had meanwhile, when they had the least
  bool complete = true;  // there was time for all that could be measured, or for what a first start measures
  bool whole = true;     // nothing is left to a later start (measureLater() of src/calibrate/measure.hpp)
  bool good() const { return complete && disturbed <= kMostDisturbed; }
  struct Link {
    std::string key;  // LinkProfile::key
    ProtocolCosts costs;
    bool operator==(const Link&) const = default;
  };
  /// Also of kinds that this build does not have: another one that shares the file may.
  std::vector<Link> links;
  /// Near memory, far memory.
  double copyGBps = 10;
  double copyFarGBps = 10;
  double copyGBpsIn(double footprint) const;
  /// One operand more in a reduction than in a copy: near memory, far memory.
  double reduceGBps = 10;
  double reduceFarGBps = 5;
  double reduceGBpsIn(double footprint) const;
  /// [of kCacheFootprints]: how far memory of so many bytes is, in parts of the way from near to far.  Ascending.
  std::array<double, kCacheFootprints.size()> caches = {};
  /// How far memory of `footprint` bytes is: 0 as near as was measured, 1 as far.
  double farness(double footprint) const;
  /// For setCopyLoops (src/base/copy.hpp).
  CopyLoops copyLoops = {};
  /// For setStreamingThreshold (src/base/copy.hpp); UINT64_MAX: never.
  uint64_t streamFromBytes = UINT64_MAX;
  /// Microseconds from sched_yield() of a thread until the other one of its core has seen what it wrote; 0: not
  /// measured.
  double handOverUs = 0;

  /// Null: no figures of this kind.
  const ProtocolCosts* find(std::string_view key) const;
  /// Nothing is available on a kind without figures.
  const LinkCost& at(std::string_view key, Protocol protocol) const;
  const LinkCost& at(const LinkProfile& link, Protocol protocol) const { return at(link.key, protocol); }
  /// Adds the kind if there are no figures of it.
  LinkCost& at(std::string_view key, Protocol protocol);
  LinkCost& at(const LinkProfile& link, Protocol protocol) { return at(link.key, protocol); }
  bool operator==(const Calibration&) const = default;
};

/// Built-in figures of an ordinary server and of `kinds` as their transports describe them, for where nothing can be
/// measured.
Calibration defaultCalibration(const MachineIdentity& machine, const LinkKinds& kinds);
/// Built-in figures for those of `kinds` that `calibration` has none of.  True: there were such.
bool addMissing(const LinkKinds& kinds, Calibration* calibration);

std::string toText(const Calibration& calibration);
/// Errors: InvalidArgument with the line and what is wrong with it.  Safe on any bytes.
Result<Calibration> parseCalibration(std::string_view text);
/// Longer texts are refused unread.
inline constexpr size_t kMostCalibrationBytes = 64 * 1024;

// ---- The file.

/// Where this machine's figures are kept first: TUTTI_CALIBRATION, else
/// ${XDG_CACHE_HOME:-~/.cache}/tutti/calibration-HASH, a file of its own for every version, since programs with an
/// older library may run beside this one. Empty: nowhere (TUTTI_CALIBRATION=off, or there is no home, which is never
/// made and said once at level info).
std::string calibrationPath(const MachineIdentity& machine);

/// Errors: SystemError (cannot be read; missing files too), InvalidArgument (not a calibration, or of another machine).
Result<Calibration> readCalibration(const std::string& path, const MachineIdentity& machine);

/// As writeKeptFile() of kept_text.hpp.
Status writeCalibration(const std::string& path, const Calibration& calibration);

/// The best of both figures for everything: what else runs makes a machine seem slower, never faster.  Of one that is
/// complete and one that is not, the complete one.  Kinds of links that one lacks come from the other, and
/// it is not complete if that is not.
Calibration bestOf(const Calibration& a, const Calibration& b);
/// The better of each figure of copies and sums in memory.  Calibration::caches go with the faster near copy, to which
/// they are relative.
void takeBetterMemory(const Calibration& other, Calibration* into);
/// Figures that are not good() are measured again by the programs that come later: up to so often, and those that are
/// not complete every so many seconds however often, ...
inline constexpr int kMostTimes = 8;
inline constexpr int kAgainSeconds = 300;
/// ... but not while other programs have more than this part of the processors: messages between two cores would not be
/// measured (src/calibrate/measure.hpp), as one busy loop on two processors makes streams seem a hundred times slower.
inline constexpr double kTooBusy = 0.25;

/// How far two cores are from each other.
struct CoreDistance {
  std::string key;  // LinkProfile::key of the messages that tell
  double us = 0;    // LinkCost::aloneUs of the smallest one in line
};
/// Distances that differ by more than this are of different placements of a virtual machine's cores (loadOrMeasure()).
inline constexpr double kSameDistance = 1.8;

/// The machine as it is now; an empty function: not known.
struct MachineGlance {
  std::function<double()> othersShare;  // the part of the processors that other programs have, 0 to 1
  std::function<std::optional<CoreDistance>()> coreDistance;
};

/// How figures are measured.
struct Measuring {
  std::function<Result<Calibration>(const MachineIdentity&)> measure;
  /// What measure() left to a later start, into what it gave; empty: not in this process, or nothing is.
  std::function<Result<Calibration>(const Calibration&)> later = {};
};

/// The figures to use: the file's, else what `measure` gives, which is then kept in the file; the best of both if the
/// file's are to be measured again, as those are that lack one of `kinds`.  `later` adds to good ones of the file what
/// they lack still.  With TUTTI_CALIBRATION=off the built-in ones.  A file that is there but no good is warned about
/// and measured again; one that cannot be written is warned about and done without.  Errors: only those of `measuring`.
///
/// Cores of a virtual machine move: its hypervisor places them nearer to each other or further apart, from second to
/// second on some machines, and messages then take two to ten times as short or as long.  The figures are those of the
/// nearest placement so far: choices by them lost the least in every placement
/// (perf/results/choices-shared-cores-2core-epyc.txt).  A start that finds the cores nearer measures again, unless
/// TUTTI_CALIBRATION names the file.
Result<Calibration> loadOrMeasure(const MachineIdentity& machine, const LinkKinds& kinds, const Measuring& measuring,
                                  const MachineGlance& now = {});

}  // namespace tutti
