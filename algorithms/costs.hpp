// What the cost formulas of the algorithm files have in common.  Microseconds and bytes; doubles throughout.
#pragma once

#include <algorithm>
#include <cmath>

#include "algorithms/patterns.hpp"
#include "src/cost/linear_cost.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti {

/// Messages one after the other, each of which waits for one from a peer: `bytes` in all.
inline double serialUs(const LinearCost& link, double messages, double bytes) {
  return messages * (link.latencyUs + link.waitUs) + bytes / (link.bandwidthGBps * 1e3);
}

/// Messages to different peers, none of which waits for another: `bytes` in all.  A message more costs the sender its
/// own work, not the way to the peer and back into its cache; and all of them are waited for at once.
inline double burstUs(const LinearCost& link, double messages, double bytes) {
  if (messages < 1) return 0;
  return link.latencyUs * (1 + link.workShare * (messages - 1)) + link.waitUs + bytes / (link.bandwidthGBps * 1e3);
}

/// A pipeline of `hops` hops through which `bytes` pass in slices of at most sliceBytes; every slice occupies a member
/// for `perHop` messages.
inline double pipelineUs(const LinearCost& link, double hops, double bytes, double sliceBytes, double perHop = 1) {
  const double slices = std::max(1.0, bytes / std::max(1.0, sliceBytes));
  return (hops + (slices - 1) * perHop) * link(bytes / slices);
}

/// What a rank of a rooted collective does itself, on average over nRanks: `messages` and `bytes` of all ranks
/// together, and how often one of them has to wait; ranks that only send run ahead.
inline double meanWorkUs(const LinearCost& link, int nRanks, double messages, double bytes, double waits) {
  return (messages * link.latencyUs + bytes / (link.bandwidthGBps * 1e3) + waits * link.waitUs) / nRanks;
}

/// The critical path, or the work of the ranks that share a core where that takes longer.  workUs is the mean over
/// ranks of what each does itself.
inline double elapsedUs(const CostModel& cost, double criticalUs, double workUs) {
  return std::max(criticalUs, cost.ranksPerCore * workUs);
}

/// Where every rank is busy all the time.
inline double elapsedUs(const CostModel& cost, double criticalUs) { return elapsedUs(cost, criticalUs, criticalUs); }

/// An allgather (or a reduce-scatter) in which every rank receives (and adds) n-1 blocks, one after the other.
inline double serialAllGatherUs(const Shape& s, const CostModel& cost) {
  return elapsedUs(cost, serialUs(cost.link, s.nRanks - 1, (s.nRanks - 1) * double(s.bytes)));
}
inline double serialReduceScatterUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  return elapsedUs(cost, serialUs(cost.link, s.nRanks - 1, moved) + cost.reduceUs(moved));
}

/// Every rank sends a block, or its whole vector, to all others at once; or it also adds up what comes.
inline double burstToAllUs(const Shape& s, const CostModel& cost) {
  return elapsedUs(cost, burstUs(cost.link, s.nRanks - 1, (s.nRanks - 1) * double(s.bytes)));
}
inline double burstAndReduceUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  return elapsedUs(cost, burstUs(cost.link, s.nRanks - 1, moved) + cost.reduceUs(moved));
}

/// A block between the root and every other rank, straight or along a binomial tree.
inline double rootedBurstUs(const Shape& s, const CostModel& cost) {
  const double bytes = double(s.bytes);
  return elapsedUs(cost, burstUs(cost.link, s.nRanks - 1, (s.nRanks - 1) * bytes),
                   (s.nRanks - 1) * cost.link(bytes) / s.nRanks);
}
inline double rootedBinomialUs(const Shape& s, const CostModel& cost) {
  const double blocks = s.nRanks - 1;
  const double rounds = ceilLog2(s.nRanks);
  const double bytes = double(s.bytes);
  const double work = rounds / 2 * cost.link(bytes);  // a block changes hands once per bit set in its distance
  return elapsedUs(cost, rounds * cost.link.latencyUs + burstUs(cost.link, blocks, blocks * bytes), work);
}

/// Blocks of sizes that the planner does not know may be small, and passing those on is only more to wait for: an
/// algorithm that does so has to be this far ahead to be chosen.
inline constexpr double kUnevenMargin = 2;
/// Before, every rank tells all others its counts, 16 bytes for each rank.
inline double countsUs(const Shape& s, const LinearCost& link) {
  const double n = s.nRanks;
  return std::ceil(std::log2(n)) * link(0) + 16 * n * n / (link.bandwidthGBps * 1e3);
}

}  // namespace tutti
