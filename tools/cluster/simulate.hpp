// The simulator's front: how long a collective takes on a cluster, and what takes the time.
//
//   TUTTI_ASSIGN(Cluster cluster, loadCluster("nodes 4; machine gpu:8 nvlink:18x20.6 nic:8x50"));
//   TUTTI_ASSIGN(Network network, Network::make(cluster));
//   Task task{.algorithm = findAlgorithm(Collective::AllReduce, "ring"), .bytes = 64 << 20};
//   TUTTI_ASSIGN(Outcome outcome, simulate(network, task, {}));      // outcome.us
//   simulate(network, task, {.detail = Detail::Fewest, .mostLoops = 3})   // for who compares many
//
// Pure functions; any thread.
#pragma once

#include "tools/cluster/job.hpp"
#include "tools/cluster/task.hpp"

namespace tutti::sim {

enum class Detail {
  Ranks,    // every rank and every link
  Classes,  // one node for each class of nodes (roles.hpp)
  Fewest,   // Classes, or Ranks where there are none: then about a millisecond for each thousand steps of a rank
  Auto,     // Ranks up to kMostRanksInDetail or where there are no classes
};
inline constexpr int kMostRanksInDetail = 64;

struct SimOptions {
  Detail detail = Detail::Auto;
  int channels = 0;  // 0: channelsFor()
  /// Where neither channels nor slices are given, also those that the machine's figures ask for (machine_defaults.hpp);
  /// the fastest counts.  For calls inside one node.
  bool asMachine = false;
  std::string protocol;
  bool record = false;
  /// Loops over slices that are run; what further ones cost follows from the last of these.
  int mostLoops = 12;
  /// So many calls in a row, of which Outcome::us is what the second and further ones add.  1: one call alone.
  int calls = 1;
};

struct Outcome {
  double us = 0;
  bool classes = false;
  int members = 0;
  int channels = 1;
  int loops = 1;        // of the schedule over its slices
  int loopsRun = 1;     // of those
  double shareRun = 1;  // of the call's bytes that these move
  Job job;
  Run run;  // of loopsRun loops

  /// [link] what it carried as a share of what it could have carried in the time.
  double load(size_t link) const;
};

/// Errors: those of roles, jobs and engine.
Result<Outcome> simulate(const Network& network, const Task& task, const SimOptions& options);

/// nccl-tests' bus bandwidth, GB/s, of a collective over `bytes` (as in Shape) in `us`.
double busGBps(Collective collective, double bytes, int nRanks, double us);

}  // namespace tutti::sim
