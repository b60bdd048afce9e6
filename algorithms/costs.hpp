// What the cost formulas of the algorithm files have in common.  Microseconds and bytes; doubles throughout.
#pragma once

#include <algorithm>

#include "src/cost/linear_cost.hpp"

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

}  // namespace tutti
