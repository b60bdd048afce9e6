// What memory the ranks of a host touch; how far from their cores that is says farness() of src/cost.  The planner's
// prices and the simulator's go by the same rules.
#pragma once

#include "src/schedule/schedule.hpp"
#include "src/sim/roles.hpp"

namespace tutti::sim {

/// Bytes of input and output of all ranks of a host, which it holds in its caches or does not.  Calls in place touch
/// less, but ranks need not agree on that.
double footprintOf(const Shape& shape, double ranksOfHost);

/// Endpoints inside nodes: edges of all members, on each lane, by which a message leaves that is copied into an
/// endpoint; what goes to several ranks at once counts as one.  Small messages of those that answer each other stay in
/// a part of their endpoint, streams go round all of it.
struct NearEndpoints {
  double answered = 0, streams = 0;
  double read = 0;  // chunks that are read where they lie, by all members
};
NearEndpoints nearEndpointsOf(const Roles& roles);

/// Memory that calls in a row pass through in endpoints of shared memory, beyond that of the two between which
/// streams are measured; messages of at most so many bytes.
double roomBytes(const NearEndpoints& endpoints, double messageBytes);

/// What is read where it lies is in the reader's caches beside those of its owner: bytes of that, of chunks of
/// `chunkBytes`, at most all memory of `footprint` bytes once more.
double readBytes(const NearEndpoints& endpoints, double chunkBytes, double footprint);

/// Bytes that a call reads and writes in the memory of the group of ranks that touches most, where all ranks of a group
/// share one memory, as on a device; groupOf[rank].  Of members that stand for classes: all of a group do as much as
/// the busiest.
double trafficOf(const Roles& roles, const std::vector<int>& groupOf, double chunkBytes);

}  // namespace tutti::sim
