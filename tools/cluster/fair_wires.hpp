// Wires that messages share: links on which every transfer gets its max-min fair share (flows.hpp).
//
// A lane has inFlight messages on the wire at a time, one to a peer; it goes on meanwhile.  Of several protocols each
// message takes the one that would be fastest alone.
#pragma once

#include <span>
#include <string>

#include "src/base/status.hpp"
#include "src/sim/workload.hpp"

namespace tutti::sim {

/// How a message's arrival is made visible, and what that costs.  A message of b bytes keeps the sender's lane for
/// overheadUs, the wire for b / efficiency bytes, and can be used latencyUs after its last byte has left; the
/// receiver's lane is busy for receiveUs with it.  With copyGBps both lanes are also busy copying it at that rate, as
/// processors are that move messages themselves.
struct ProtocolSpec {
  std::string name;
  double overheadUs = 0;
  double latencyUs = 0;
  double receiveUs = 0;
  double efficiency = 1;
  double mostGBps = 0;   // payload of one message; 0: what the way carries
  double mostBytes = 0;  // larger messages do not go by it; 0: all do
  double copyGBps = 0;   // 0: lanes copy nothing
  /// A message to several ranks is copied by its sender once, and read by each of them.
  bool once = false;
  /// Where ranks share cores, more work of a receiver whose sender is on another core: cache lines change their owner.
  double acrossUs = 0;
  double acrossGBps = 0;  // 0: the bytes cost no more
  /// GB/s, likewise more work of a sender that writes to where a receiver on another core has read before; 0: none.
  double acrossWriteGBps = 0;
  /// GB/s at which either lane copies together, or apart, chunks of a message that do not lie side by side; 0: it costs
  /// nothing, as where messages are built in slots.
  double gatherGBps = 0;
  bool operator==(const ProtocolSpec&) const = default;
};

/// An edge over links.
struct LinkEdge : Edge {
  uint32_t firstLink = 0;  // in FairWorkload::links
  uint32_t nLinks = 0;
  double mostGBps = 0;
  bool far = false;
};

struct FairWorkload : Workload<LinkEdge> {
  std::vector<int32_t> links;
  std::vector<double> capacities;  // [link] GB/s
  std::vector<ProtocolSpec> near, far;
  /// Only protocols of this name where there is one; empty: whichever is fastest for a message.
  std::string protocol;
  int inFlight = 1;
  RankPrices prices;
  std::vector<int32_t> coreOf;  // [member]; empty: each lane has a processor of its own

  std::span<const int32_t> linksOf(const LinkEdge& e) const { return std::span(links).subspan(e.firstLink, e.nLinks); }
};

/// MessageRecord::protocol is in FairWorkload::near or far.
/// Errors: as Engine::run().
Result<Run> runFair(const FairWorkload& load, int loops, int loopsOfCall, double chunkBytes, bool record);

}  // namespace tutti::sim
