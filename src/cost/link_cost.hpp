// What messages over a kind of link cost, by protocol: as measured, or as its transport takes for granted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/cost/linear_cost.hpp"
#include "src/cost/link_profile.hpp"

namespace tutti {

/// How the arrival of a message is made visible; see transport.hpp.
enum class Protocol : uint8_t { Inline, Slots, Direct };
inline constexpr size_t kNumProtocols = 3;
inline constexpr Protocol kAllProtocols[] = {Protocol::Inline, Protocol::Slots, Protocol::Direct};

/// "inline", "slots", "direct".
const char* protocolName(Protocol protocol);
bool parseProtocol(std::string_view name, Protocol* out);
/// Whether it may be a LinkProfile::key.
bool isLinkKey(std::string_view text);

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
  /// What a byte costs more to read because its owner has just written it; 0: not measured.  farness: as costIn().
  double freshUsPerByte(double farness) const;
  /// The cost of messages of a call that moves `bytes` in all: alone where they are few, else as streams.
  /// farness: of the memory that all ranks of a host touch in it, Calibration::farness().
  LinearCost costIn(double bytes, double farness, bool bothWays) const;
};

/// By protocol; those that are not available cannot serve such a link.
struct ProtocolCosts {
  std::array<LinkCost, kNumProtocols> all = {};
  LinkCost& operator[](Protocol protocol) { return all[static_cast<size_t>(protocol)]; }
  const LinkCost& operator[](Protocol protocol) const { return all[static_cast<size_t>(protocol)]; }
  bool operator==(const ProtocolCosts&) const = default;
};

/// A kind of link as its transport describes it.
struct LinkDescription {
  LinkProfile profile;
  /// Figures of an ordinary server, for where nothing can be measured.
  ProtocolCosts (*builtIn)();
};

/// All kinds that there are, the faster ones first; an order for texts and for "the slowest of some".
using LinkKinds = std::vector<LinkDescription>;

}  // namespace tutti
