// The estimate: what a set of schedules costs, step by step, on ranks that have cores and share wires.
//
// A message costs the sender work of its own (for the message, and to copy it into the channel), then travels, then
// costs the receiver work (to copy it out, or to read it where it lies).  Between groups of ranks it passes the wire
// out of the sender's group and the one into the receiver's, in the order in which messages come.  Who sends what
// others read where it lies begins no other call before they have read it.  Ranks that share a core take turns: one
// goes on until it has to wait, then the core is handed to the next.
//
// Time goes forward from event to event, one step of one rank each, so the cost of a estimate is about 50 ns a step.
// Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/sim/memory.hpp"

namespace tutti::sim {

/// What a message costs on one kind of way; microseconds, and microseconds a byte.
struct MessagePrice {
  double sendUs = 0;     // work of the sender for the message
  double latencyUs = 0;  // from there until it can be taken
  double receiveUs = 0;  // work of the receiver
  double sendUsPerByte = 0;
  double receiveUsPerByte = 0;
  double operandUsPerByte = 0;  // more work of a receiver that combines it
  /// Of either end, for what is copied together into a message, or apart from one (Step::gathered, scattered).
  double gatherUsPerByte = 0;
  double wireUsPerByte = 0;  // of the wires at both ends; 0: there are none
  bool once = false;         // what a step sends to several ranks is copied in once
  /// More work of a receiver on another core than the sender, for what the sender has computed or received itself.
  double freshUsPerByte = 0;
};

/// How two ranks are joined, from near to far; a message passes the wires of the groups of its level.
inline constexpr size_t kMostLevels = 8;

struct Prices {
  /// [level], for messages through the channel and for those that lie in the sender's memory (Op::direct).
  std::array<MessagePrice, kMostLevels> channel, direct;
  /// Through the channel between ranks that share a core.
  std::array<MessagePrice, kMostLevels> here;
  double reduceUsPerByte = 0;  // of every operand but the first
  double copyUsPerByte = 0;
  int coresPerNode = 0;  // that the ranks of a node share; 0: everyone has one
  double handOverUs = 0;
  /// Smaller messages go through the channel, wherever they lie.
  double leastDirectBytes = 0;
  /// Where one member stands for more ranks of a node than it has cores for: so much longer takes all work.
  double stretch = 1;
};

/// What further operands of a combination cost to receive, for they are read in the pass that writes the result.
inline constexpr double kFurtherOperands = 0.5;

/// Roles with the level of every edge, ready to be priced again and again.  A value.
struct Bound {
  Roles roles;
  std::vector<std::vector<uint8_t>> levels;              // [member][edge]
  std::vector<std::array<int32_t, kMostLevels>> groups;  // [member][level]: whose wires it uses
  int32_t nGroups = 0;
  uint64_t nSteps = 0;
  NearChannels nearChannels;
};

/// How near two ranks are.  groupOf[level - 1][rank]: ranks of one group are joined by a way of a lower level; in the
/// order from the smallest groups to the largest (L3, NUMA node, socket, host), each of which divides the next.
struct Levels {
  std::vector<std::vector<int>> groupOf;
  /// The level of the way between two different ranks: 0 within the smallest groups.
  size_t between(int a, int b) const;
};

Bound bind(Roles roles, const Levels& levels);

struct Estimate {
  double firstUs = 0;  // until everyone has estimated the schedule once
  double nextUs = 0;   // and for each time more; as much as the first where there is only that
  double busyUs = 0;   // that the busiest core has to do each time
  double wireUs = 0;   // that the busiest wire carries each time
};

/// What each time takes in any order of events, and without looking for one: work of the busiest core (but handing
/// over, and copies of operands), and what the busiest wire carries.
struct Load {
  double busyUs = 0;  // at most Estimate::busyUs
  double wireUs = 0;  // Estimate::wireUs
};
Load loadOf(const Bound& bound, const Prices& prices, double chunkBytes);

/// With chunks of `chunkBytes` bytes, `passes` times (1 to 8).  All begin at once, and again each rank when it has done
/// the time before.
/// Error: InternalError if some rank waits for ever.
Result<Estimate> estimate(const Bound& bound, const Prices& prices, double chunkBytes, int passes);

}  // namespace tutti::sim
