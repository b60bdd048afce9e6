// What one simulation runs: programs, who talks to whom over which links, and what messages cost.
//
// The members of a job are ranks, or classes of ranks that do the same at the same time (classes.hpp); a class stands
// for all of its ranks, and its links for theirs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/cluster/cluster.hpp"
#include "src/sim/roles.hpp"

namespace tutti::sim {

/// The way from a member to one of its peers.
struct Edge {
  int32_t to = 0;          // member
  int32_t toEdge = 0;      // what this one is among its edges
  int32_t toChannel = 0;   // whose lanes take what comes by it
  uint32_t firstLink = 0;  // in Job::links
  uint32_t nLinks = 0;
  double mostGBps = 0;
  double switchesUs = 0;
  bool far = false;
};

/// One lane of a member.
struct JobLane {
  std::shared_ptr<const Lanes> lanes;
  int32_t lane = 0;       // of these
  int32_t firstEdge = 0;  // the program's edge e is the member's edge firstEdge + e
  const LaneProgram& steps() const { return (*lanes)[static_cast<size_t>(lane)]; }
};

struct Job {
  std::vector<std::vector<JobLane>> lanes;  // [member][lane], as many for each
  std::vector<std::vector<Edge>> edges;     // [member][edge]; lanes of different channels have edges of their own
  std::vector<int32_t> links;
  std::vector<double> capacities;  // [link] GB/s
  std::vector<int> rankOf;         // [member] a rank that it stands for
  std::vector<int64_t> nRanksOf;   // [member] how many
  int nRanks = 0;
  int nChannels = 1;
  /// Only protocols of this name where there is one; empty: whichever is fastest for a message.
  std::string protocol;
  std::vector<ProtocolSpec> near, far;
  double launchUs = 0, reduceGBps = 1, combineUs = 0, copyGBps = 1;
  int inFlight = 1;
  /// [member]: its core; empty: one each.  Lanes keep a core from waiting to waiting, and hand it on, from one of its
  /// members to the next, in turnUs and passUs for each that it goes past.
  std::vector<int32_t> coreOf;
  int nCores = 0;
  int loopsOfCall = 1 << 30;  // after which a call is done and the next begins, with its launchUs
  double turnUs = 0, passUs = 0;
  double chunkBytes = 0;  // on one lane, in all loops

  std::span<const int32_t> linksOf(const Edge& e) const { return std::span(links).subspan(e.firstLink, e.nLinks); }
  int nMembers() const { return static_cast<int>(lanes.size()); }
  int nLanes() const { return static_cast<int>(lanes.front().size()); }
  int lanesOfChannel() const { return nLanes() / nChannels; }
};

class Network;

/// Binds roles to a network.  nChannels > 1: as many copies of the schedule, each with a part of the bytes, in which
/// the ranks of a node have changed places: what is rank i's in one is rank i+1's in the next.  So every rank's port to
/// the fabric carries what only one would; rings and trees per channel as tools/topology/search finds them do the same.
/// Errors: InvalidArgument if a way is cut.
Result<Job> bindJob(const Network& network, const Roles& roles, int nChannels);

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
