// What one simulation runs: programs, who talks to whom over which links, and what messages cost.
//
// The members of a job are ranks, or classes of ranks that do the same at the same time (src/sim/roles.hpp); a class
// stands for all of its ranks, and its links for theirs.
#pragma once

#include <optional>
#include <vector>

#include "src/sim/roles.hpp"
#include "tools/cluster/cluster.hpp"

namespace tutti::sim {

struct Job : FairWorkload {
  std::vector<int64_t> nRanksOf;  // [member] how many ranks it stands for
  int nRanks = 0;
  double chunkBytes = 0;  // on one lane, in all loops
};

class Network;

/// Binds roles to a network.  nChannels > 1: as many copies of the schedule, each with a part of the bytes, in which
/// the ranks of a node have changed places: what is rank i's in one is rank i+1's in the next.  So every rank's port to
/// the fabric carries what only one would; rings and trees per channel as tools/topology/search finds them do the same.
/// staggered: they start apart.  Errors: InvalidArgument if a way is cut.
Result<Job> bindJob(const Network& network, const Roles& roles, int nChannels, bool staggered);

/// For roles of classes, and as many channels as a node has ranks: every rank of a node then does in one channel or
/// another what each of its ranks does in the first.  If the node looks the same from each of its ranks, a job with one
/// member a node, its lanes what the ranks of the node do in one channel; nothing if it does not.
std::optional<Job> bindTurned(const Network& network, const Roles& roles);

/// All of a job but lanes, edges and links.
Job beginJob(const Network& network, const Roles& roles, int nChannels);

/// Channels with which all ports to the fabric are used: 1 where every rank sends to other nodes by itself, else as
/// many as a node has ranks.
int channelsFor(const Roles& roles);

}  // namespace tutti::sim
