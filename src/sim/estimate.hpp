// What a set of schedules costs on ranks that have cores and share wires, for who compares many: the planner.
//
// A message costs the sender work of its own (for the message, and to copy it into the endpoint), then travels, then
// costs the receiver work (to copy it out, or to read it where it lies).  Between groups of ranks it passes the wire
// out of the sender's group and the one into the receiver's, which messages take in turn, in the order in which they
// come.  The engine (engine.hpp) does the rest, in about 50 ns a step.
// Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/sim/memory.hpp"
#include "src/sim/workload.hpp"

namespace tutti::sim {

/// How two ranks are joined, from near to far; a message passes the wires of the groups of its level.
inline constexpr size_t kMostLevels = 8;

struct Prices : RankPrices {
  /// [level], for messages through the endpoint and for those that lie in the sender's memory (Op::direct).
  std::array<MessagePrice, kMostLevels> copied, direct;
  /// Through the channel between ranks that share a core.
  std::array<MessagePrice, kMostLevels> here;
  int cores = 0;  // that the ranks of a node share, or all ranks; 0: everyone has one
  bool nodesShareCores = false;
  /// Smaller messages go through the endpoint, wherever they lie.
  double leastDirectBytes = 0;
};

struct LevelEdge : Edge {
  uint8_t level = 0;
};

/// Roles with the level of every edge, ready to be priced again and again.  A value.
struct Bound : Workload<LevelEdge> {
  Roles roles;
  std::vector<std::array<int32_t, kMostLevels>> groups;  // [member][level]: whose wires it uses
  int32_t nGroups = 0;
  NearEndpoints nearEndpoints;
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

/// With chunks of `chunkBytes` bytes, `passes` times, at least once.  All begin at once, and again each rank when it
/// has done the time before. Error: InternalError if some rank waits for ever.
Result<Estimate> estimate(const Bound& bound, const Prices& prices, double chunkBytes, int passes);

}  // namespace tutti::sim
