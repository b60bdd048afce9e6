// What the engine runs: the lanes of all members, who is joined to whom, and what work and messages cost.  And what
// comes out.
//
// The members of a workload are ranks, or classes of ranks that do the same at the same time (roles.hpp); a class
// stands for all of its ranks.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "src/sim/program.hpp"

namespace tutti::sim {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a message costs; microseconds, and microseconds a byte.
struct MessagePrice {
  double sendUs = 0;     // work of the sender for the message
  double latencyUs = 0;  // from there until it can be taken
  double receiveUs = 0;  // work of the receiver
  double sendUsPerByte = 0;
  double receiveUsPerByte = 0;
  double operandUsPerByte = 0;  // more work of a receiver that combines it
  /// All work for a second or later operand of a combination: reading the message and combining it.  None: it costs
  /// kFurtherOperands of receiving it, and RankPrices::reduceUsPerByte.
  std::optional<double> furtherUsPerByte;
  /// Of either end, for what is copied together into a message, or apart from one (Step::gathered, scattered).
  double gatherUsPerByte = 0;
  double wireUsPerByte = 0;       // of wires that are taken in turn, at both ends; 0: there are none
  double onceFromBytes = kNever;  // messages of a step to several ranks are copied in once, if they are as large
  double lookUs = 0;  // until a core has gone past a rank that waits for such a message, beside RankPrices::passUs
  /// More work of a receiver on another core than the sender, for what the sender has just written (freshPart()).
  double freshUsPerByte = 0;
};

/// What further operands of a combination cost to receive, for they are read in the pass that writes the result.
inline constexpr double kFurtherOperands = 0.5;

/// Work of a step's sender for what goes to one peer.
inline double sendWork(const MessagePrice& price, const Step& step, const StepPeer& peer, bool first,
                       double chunkBytes) {
  if (!first && step.published) return 0;
  const bool copies = first || step.chunks * chunkBytes < price.onceFromBytes;
  const double gathered = first ? step.gathered * chunkBytes * price.gatherUsPerByte : 0;
  return peer.messages * price.sendUs + (copies ? step.chunks * chunkBytes * price.sendUsPerByte : 0) + gathered;
}

/// What ranks do beside messages.
struct RankPrices {
  double launchUs = 0;         // of a call: of each lane, or of the first where lanes share cores
  double reduceUsPerByte = 0;  // of every operand but the first
  double combineUs = 0;        // for every message that is combined
  double copyUsPerByte = 0;
  /// Until a core has gone over to the next of its members, and for each that it goes past, since that has to wait.
  double turnUs = 0, passUs = 0;
  /// Where one member stands for more ranks of a node than it has cores for: so much longer takes all work.
  double stretch = 1;
};

/// The part of a call's input that counts as just written.  Programs write their input before each call, benchmarks do
/// not.  Half loses little to either, until calls teach which of the two it is.
inline constexpr double kNewInput = 0.5;

/// The part of MessagePrice::freshUsPerByte that readers on other cores pay for what they read in place.
inline float freshPart(const Step& step) { return step.fresh ? 1 : static_cast<float>(kNewInput); }

/// Work of a receiver for each byte, beside RankPrices::reduceUsPerByte for every operand but the first; first: of the
/// message's step.
inline double receiveUsPerByte(const MessagePrice& price, const RankPrices& rank, bool combines, bool first,
                               float fresh) {
  const double freshUs = fresh * price.freshUsPerByte;
  if (!combines) return price.receiveUsPerByte + freshUs;
  if (!first && price.furtherUsPerByte) return *price.furtherUsPerByte - rank.reduceUsPerByte + freshUs;
  return (first ? 1 : kFurtherOperands) * price.receiveUsPerByte + price.operandUsPerByte + freshUs;
}

/// The way from a member to one of its peers.
struct Edge {
  int32_t to = 0;         // member
  int32_t toEdge = 0;     // what this one is among its edges
  int32_t toChannel = 0;  // whose lanes take what comes by it
  double switchesUs = 0;  // beside the latency
};

/// One lane of a member.
struct MemberLane {
  std::shared_ptr<const Lanes> lanes;
  int32_t lane = 0;       // of these
  int32_t firstEdge = 0;  // the program's edge e is the member's edge firstEdge + e
  const LaneProgram& steps() const { return (*lanes)[static_cast<size_t>(lane)]; }
};

/// E: Edge, with what the model of the wires has to know of one.
template <class E>
struct Workload {
  std::vector<std::vector<MemberLane>> lanes;  // [member][lane], as many for each
  std::vector<std::vector<E>> edges;           // [member][edge]; lanes of different channels have edges of their own
  std::vector<int> rankOf;                     // [member] a rank that it stands for
  int nChannels = 1;
  bool staggered = false;  // channels start apart, as in Schedule

  int nMembers() const { return static_cast<int>(lanes.size()); }
  int nLanes() const { return static_cast<int>(lanes.front().size()); }
  int lanesOfChannel() const { return nLanes() / nChannels; }
  /// What a channel has of a slice in a loop: those that start apart begin with a part of one, and end with the rest.
  double shareOf(int channel, int loop, int loops) const {
    const double first = static_cast<double>(channel + 1) / nChannels;
    if (!staggered || (loop > 0 && loop < loops - 1)) return 1;
    return loop == 0 ? first : 1 - first;
  }
};

inline constexpr double kMostUs = 2e12;  // 23 days: what takes longer is an error

/// What happened, for timelines and critical paths; microseconds.
struct StepRecord {
  int32_t member, lane, step, loop;
  double ready;     // its messages are there, and the lane is free
  double end;       // the lane goes on
  int32_t message;  // that it waited for last; -1: it waited for none
  int32_t before;   // record of the lane's step before; -1: none
};
struct MessageRecord {
  int32_t step;          // record of the step that sent it
  int32_t member, edge;  // of the sender
  int32_t protocol;      // as the wires number them
  int32_t behind;        // message that had to leave first, -1: none
  double bytes;          // payload
  double ready, start, end, arrival;
};

struct Run {
  double end = 0;                 // of the last lane
  std::vector<double> ends;       // [loop] of the last lane
  double busyUs = 0;              // of the busiest core, in all loops
  std::vector<double> linkBytes;  // [link] that passed, with what protocols add; if the wires count that
  int64_t messages = 0;
  int64_t events = 0;
  std::vector<StepRecord> steps;  // if asked for
  std::vector<MessageRecord> sent;
};

}  // namespace tutti::sim
