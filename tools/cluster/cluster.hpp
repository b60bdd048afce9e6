// What is simulated: nodes that are all alike, the fabric between them, and what a message costs beside its bytes.
//
// A description is text, one statement a line (or several with ';' between them), '#' begins a comment:
//
//   nodes 128                                          how many; 1
//   machine gpu:8 nvlink:18x20.6 nic:8x50              one line as src/topology/one_line.hpp has it,
//   machine-file dgx-h100.xml                          or a file: NCCL XML, hwloc XML, one line
//   ranks-per-node 8                                   one for each GPU; without GPUs one for each NUMA node
//   fabric fat-tree leaf:32 oversubscription:2 hop:0.3
//   near simple overhead:0.5 latency:3 efficiency:0.9  a protocol inside the node
//   far simple overhead:1 latency:9                    a protocol between nodes
//   launch 5                                           microseconds before the first op
//   reduce 400                                         GB/s of the operands that one lane combines; by the GPU
//   combine 0.05                                       microseconds more for every message that is combined
//   copy 1000                                          GB/s of a copy inside a rank
//   slice 2M                                           the most bytes of a message; larger chunks go in loops
//   cores 2                                            of a node, which its ranks share in turn; else one each
//   turn 0.9                                           microseconds until a core has gone over to the next rank
//   pass 0.2                                           and for each rank that it goes past, since that waits; as turn
//   memory near:2M far:32M copy:0.5 reduce:0.4         copies and reductions slow down to these parts of their rates as
//                                                      what a node's ranks touch grows from near to far
//   in-flight 1                                        messages to different ranks that a lane has on the wire at once
//
// Fabrics; hop is microseconds per switch or router:
//   switch                                 one switch that never is in the way
//   fat-tree leaf:N oversubscription:X     N nodes under a leaf switch, whose links to the spine are 1/X of theirs
//   rail leaf:N oversubscription:X         a leaf switch for each rail of N nodes; other rails are over NVLink first
//   torus dims:4x4x4 gbps:B                nodes in a grid that closes in itself, B GB/s in each direction
//   dragonfly group:N gbps:B global:G      groups of N nodes; B GB/s from a node into its group, G between two groups
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"
#include "src/topology/graph.hpp"
#include "tools/cluster/fair_wires.hpp"

namespace tutti::sim {

enum class FabricKind { Switch, FatTree, Rail, Torus, Dragonfly };
const char* fabricName(FabricKind kind);

struct FabricSpec {
  FabricKind kind = FabricKind::Switch;
  int leafNodes = 32;           // fat-tree, rail
  double oversubscription = 1;  // fat-tree, rail
  std::vector<int> dims;        // torus
  int groupNodes = 0;           // dragonfly
  double gbps = 50;             // torus: a direction of a node; dragonfly: a node's link into its group
  double globalGBps = 0;        // dragonfly: between two groups; 0: as much as one group's share of its nodes' links
  double hopUs = 0.3;
  bool operator==(const FabricSpec&) const = default;
};

/// A value.
struct Cluster {
  int nodes = 1;
  topology::Graph machine;  // one host
  std::string machineText;  // as given
  int ranksPerNode = 0;     // as many as ranks have places if not given
  FabricSpec fabric;
  std::vector<ProtocolSpec> near, far;  // at least one each
  double launchUs = 5;
  double reduceGBps = 400;
  double combineUs = 0;  // for every message that is combined
  double copyGBps = 1000;
  double sliceBytes = 2 << 20;
  bool sliceGiven = false;  // else large calls may have those of the machine (machine_defaults.hpp)
  bool nearGiven = false, farGiven = false, launchGiven = false, reduceGiven = false, copyGiven = false;
  int mostChannels = 0;    // inside a node; 0: as the machine's links need them
  double packetBytes = 0;  // channels may be so many that each has no more; 0: by kLeastOfChannel
  int inFlight = 1;
  int cores = 0;       // of a node, which its ranks share in turn: rank i has core i modulo cores; 0: one each
  double turnUs = 0;   // until a core has gone over from one rank to the next of its ranks
  double passUs = -1;  // more for every rank that waits and is gone past; negative: as much as a turn
  /// Copies and reductions take place at these parts of their rates in memory that is far; see farness().
  double nearBytes = 2 << 20, farBytes = 32 << 20, farCopy = 1, farReduce = 1;

  int nRanks() const { return nodes * ranksPerNode; }
};

/// Most nodes and ranks that a description may have.
inline constexpr int kMostNodes = 1 << 20;
inline constexpr int kMostRanks = 1 << 22;
inline constexpr size_t kMostPlaces = 512;  // GPUs or NUMA nodes of a machine
/// Longer texts are refused unread.
inline constexpr size_t kMostClusterBytes = 64 * 1024;

/// Protocols of a description that names none, from NCCL's tuning constants (microseconds per hop of a ring over NVLink
/// and over a network; LL moves a flag with every word of data, LL128 one with every fifteen).
std::vector<ProtocolSpec> defaultNear();
std::vector<ProtocolSpec> defaultFar();

/// `origin` names the text in messages.  machine-file is refused unless `files` is set.
/// Errors: InvalidArgument "origin:line: ..." with what is wrong and what it should be.
Result<Cluster> parseCluster(std::string_view text, const std::string& origin, bool files = true);

/// From a file, or from the text itself if it has a space and no such file is there, or a named machine's by its name
/// alone.  Errors: also InvalidUsage if the
/// file cannot be read.
Result<Cluster> loadCluster(const std::string& fileOrText);

/// "128 nodes of 8 ranks, fat-tree of 32 nodes a leaf": one line for people.
std::string describe(const Cluster& cluster);

}  // namespace tutti::sim
