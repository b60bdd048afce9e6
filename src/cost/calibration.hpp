// What this machine's links and memory cost, as measured: the numbers behind every choice of the planner.
//
// Calibration is a value.  One rank has it (measured, or read from a file) and hands it to the others at init, so that
// all ranks compare the same numbers.  Its text form is one line per figure:
//
//   tutti-calibration 8
//   cpu Intel(R) Xeon(R) Processor @ 2.50GHz
//   cores 2
//   host build-7
//   measured 1 0.02 complete                       how often; the part of the processors that others had; or "cut"
//   copy-gbps 11.2 6.1                             near and far
//   reduce-gbps 19.5 7.5                           near and far
//   caches 0.4 0.6 0.9 1 1                         how far memory of each of kCacheFootprints is
//   stream-from-bytes 2097152
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

#include "src/base/status.hpp"
#include "src/cost/linear_cost.hpp"
#include "src/cost/machine_identity.hpp"

namespace tutti {

/// How two ranks are joined, as far as cost goes.
enum class LinkKind : uint8_t {
  ShmThreads,    // ranks of one process
  ShmProcesses,  // processes of one host
  TcpLocal,      // tcp between processes of one host
  TcpRemote,     // tcp between hosts
};
inline constexpr size_t kNumLinkKinds = 4;

/// How the arrival of a message is made visible; see transport.hpp.
enum class Protocol : uint8_t { Inline, Slots, Direct };
inline constexpr size_t kNumProtocols = 3;

/// "shm-threads", ... and "inline", "slots", "direct".
const char* linkKindName(LinkKind kind);
const char* protocolName(Protocol protocol);
bool parseLinkKind(std::string_view name, LinkKind* out);
bool parseProtocol(std::string_view name, Protocol* out);

/// GB/s each way of many messages in a row: one way alone, and both ways at once, as in most collectives.  Slots keep
/// both ends of a message busy and lose half of their speed there, direct messages only the receiver.
struct StreamRate {
  double oneWay = 0;  // 0: not measured
  double bothWays = 0;
  bool operator==(const StreamRate&) const = default;
};

/// A stream of this many bytes was measured on memory that the caches next to a core hold ...
inline constexpr size_t kNearBytes = 512 * 1024;
/// ... and both ends' memory is then at most this much in all; ...
inline constexpr size_t kNearFootprint = 4 * kNearBytes;
/// ... and on this much memory, which they do not hold, and of which shared caches hold a part at most.  The same one
/// way and both ways: then a rate tells what the ways cost, and not what the caches do.
inline constexpr size_t kFarFootprint = 32 * 1024 * 1024;
/// Bytes of a stream on far memory.
constexpr size_t farBytes(bool bothWays) { return kFarFootprint / (bothWays ? 4 : 2); }

/// Bytes of the single messages that were measured, on near memory.
inline constexpr std::array<size_t, 8> kMessageSizes = {8,        64,       1 << 10,   4 << 10,
                                                        16 << 10, 64 << 10, 128 << 10, kNearBytes};

/// Footprints between those, at which the slowing down of copies says how far memory is.
inline constexpr std::array<size_t, 5> kCacheFootprints = {3 << 20, 4 << 20, 6 << 20, 8 << 20, 16 << 20};

/// One protocol on one kind of link.
struct LinkCost {
  bool available = false;
  LinearCost cost;  // of one message alone, waited for
  /// As measured between two ranks that answer each other, each from memory that it does not write again, in
  /// microseconds; 0: not measured, or none so large.
  std::array<double, kMessageSizes.size()> aloneUs = {};
  /// Between the sizes that were measured, along a straight line of logarithms; none: outside of them.
  std::optional<double> aloneUsOf(double bytes) const;
  /// The largest message that this protocol takes; larger ones need another (inline) or go in pieces (slots).
  uint64_t mostBytes = 0;
  StreamRate near;
  StreamRate far;
  /// What a message takes of a core that has both ends, on near memory: nothing comes from another core's caches.
  /// Bandwidth 0: not measured.
  LinearCost here = {0, 0};
  /// Of direct messages: GB/s of reading near memory that its owner, on another core, has written since it was last
  /// read, with what it costs the owner to write there again.  0: not measured.
  double freshGBps = 0;
  bool operator==(const LinkCost& o) const {
    return available == o.available && cost.latencyUs == o.cost.latencyUs &&
           cost.bandwidthGBps == o.cost.bandwidthGBps && mostBytes == o.mostBytes && aloneUs == o.aloneUs &&
           near == o.near && far == o.far && here.latencyUs == o.here.latencyUs &&
           here.bandwidthGBps == o.here.bandwidthGBps && freshGBps == o.freshGBps;
  }
  /// The cost of messages of a call that moves `bytes` in all: alone where they are few, else as streams.
  /// farness: of the memory that all ranks of a host touch in it, Calibration::farness().
  LinearCost costIn(double bytes, double farness, bool bothWays) const;
};

struct Calibration {
  static constexpr int kVersion = 8;
  MachineIdentity machine;
  int times = 0;         // measured so often, of which these are the best figures; 0: built in
  double disturbed = 0;  // the part of this process's processors that others had meanwhile, when they had the least
  bool complete = true;  // there was time for all that could be measured
  std::array<std::array<LinkCost, kNumProtocols>, kNumLinkKinds> links = {};
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
  /// For setStreamingThreshold (src/base/copy.hpp); UINT64_MAX: never.
  uint64_t streamFromBytes = UINT64_MAX;

  LinkCost& at(LinkKind kind, Protocol protocol) {
    return links[static_cast<size_t>(kind)][static_cast<size_t>(protocol)];
  }
  const LinkCost& at(LinkKind kind, Protocol protocol) const {
    return links[static_cast<size_t>(kind)][static_cast<size_t>(protocol)];
  }
  bool operator==(const Calibration&) const = default;
};

/// Built-in figures of an ordinary server, for where nothing can be measured.  tcp between hosts goes by the speed of
/// the fastest interface that is up.
Calibration defaultCalibration(const MachineIdentity& machine);

std::string toText(const Calibration& calibration);
/// Errors: InvalidArgument with the line and what is wrong with it.  Safe on any bytes.
Result<Calibration> parseCalibration(std::string_view text);
/// Longer texts are refused unread.
inline constexpr size_t kMostCalibrationBytes = 64 * 1024;

// ---- The file.

/// Where this machine's figures are kept: TUTTI_CALIBRATION, else ${XDG_CACHE_HOME:-~/.cache}/tutti/calibration-HASH,
/// a file of its own for every version, since programs with an older library may run beside this one.
/// Empty: nowhere (TUTTI_CALIBRATION=off, or there is no home, which is never made and said once at level info).
std::string calibrationPath(const MachineIdentity& machine);

/// Errors: SystemError (cannot be read; missing files too), InvalidArgument (not a calibration, or of another machine).
Result<Calibration> readCalibration(const std::string& path, const MachineIdentity& machine);

/// As writeKeptFile() of kept_text.hpp.
Status writeCalibration(const std::string& path, const Calibration& calibration);

/// The best of both figures for everything: what else runs makes a machine seem slower, never faster.  Of one that is
/// complete and one that is not, the complete one.
Calibration bestOf(const Calibration& a, const Calibration& b);
/// Figures that are not complete, or that others disturbed more than this, are measured again by the programs that come
/// later, ...
inline constexpr double kMostDisturbed = 0.1;
/// ... up to so often.
inline constexpr int kMostTimes = 8;

/// The figures to use: the file's, else what `measure` gives, which is then kept in the file; the best of both if the
/// file's are to be measured again.  With TUTTI_CALIBRATION=off the built-in ones.  A file that is there but no good is
/// warned about and measured again; one that cannot be written is warned about and done without.  Error: only measure's
/// own.
Result<Calibration> loadOrMeasure(const MachineIdentity& machine,
                                  const std::function<Result<Calibration>(const MachineIdentity&)>& measure);

}  // namespace tutti
