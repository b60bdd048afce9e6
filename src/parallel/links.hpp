// Links of a planner's machine, as its groups of ranks use them.
#pragma once

#include <algorithm>

#include "tutti/parallel/planner.h"

namespace tutti::parallel {

struct Link {
  double bandwidth, latencyMs;
};
/// Of a collective's steps, one after the other through all ranks but one.
struct RingLink {
  double bandwidth, onceMs;
};

/// The slowest link of a group whose ranks span that many neighbours.
inline Link linkOf(const tuttiMachine_t& machine, int span) {
  if (span <= machine.perNode) return {machine.nodeBandwidth, machine.nodeLatencyUs / 1e3};
  return {machine.bandwidth, machine.latencyUs / 1e3};
}

/// The ring of a group of `ranks`, of which every node has at least `inNode`.  Collectives run on `inNode` rings at
/// once. Each ring crosses to the next node by the adapter of another rank, as channels do in NCCL and Tutti.
inline RingLink ringOf(const tuttiMachine_t& machine, int ranks, int inNode) {
  const double nodeMs = machine.nodeLatencyUs / 1e3, acrossMs = machine.latencyUs / 1e3;
  if (inNode >= ranks) return {machine.nodeBandwidth, (ranks - 1) * nodeMs};
  const int across = (ranks + inNode - 1) / inNode - 1;
  const int adapters = machine.adapters > 0 ? std::min(machine.adapters, inNode) : inNode;
  const double bandwidth = machine.bandwidth * adapters;
  return {inNode == 1 ? bandwidth : std::min(machine.nodeBandwidth, bandwidth),
          across * acrossMs + (ranks - 1 - across) * nodeMs};
}

/// The replicas that one node has of a rank's parameters, at least.
inline int replicasInNode(const tuttiMachine_t& machine, const tuttiLayout_t& l) {
  const int copies = l.cp * l.ep, inner = l.tp * copies;
  if (inner >= machine.perNode) return std::clamp(machine.perNode / l.tp, 1, copies);
  return copies * std::clamp(machine.perNode / (inner * l.pp), 1, l.dp);
}

}  // namespace tutti::parallel
