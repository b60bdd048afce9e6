// The machines that a communicator's ranks run on, as one graph, and which of the ranks are near each other there.
//
// One rank of every host, the lowest, tells what its host looks like; where a rank runs is on everyone's descriptor.
// Every rank makes the same of it, so that all plan alike.
#pragma once

#include <string>
#include <vector>

#include "src/comm/peer_descriptor.hpp"
#include "src/topology/levels.hpp"

namespace tutti {

/// A value; the same on all ranks.
struct Machines {
  topology::Graph graph;           // all hosts, without cores; in order of their lowest rank
  topology::LevelGroups levels;    // [level][rank]
  std::vector<std::string> notes;  // where the graph says less than the ranks' descriptors
};

/// What `rank` tells all others of its host; if a lower rank of the host does, only what it was told of the host itself
/// (TUTTI_TOPO_FILE, TUTTI_TOPO_CPUS).  What goes wrong here (a topology file that cannot be read) is in the text, so
/// that all ranks fail alike.
std::string machineReport(const std::vector<PeerDescriptor>& descriptors, int rank);

/// reports[rank] as of machineReport.
/// Errors: InvalidUsage or InvalidArgument naming the rank and TUTTI_TOPO_FILE or TUTTI_TOPO_CPUS, also where ranks of
/// a host have been told different things; RemoteError naming the rank whose report is not understood.
Result<Machines> mergeReports(const std::vector<PeerDescriptor>& descriptors, const std::vector<std::string>& reports);

/// What hierarchical algorithms are built on: groups of ranks inside hosts, the coarsest first; [i][rank] as in
/// Shape::inner.  Levels that separate nobody, or everybody, are left out, as are those that are as the one before.
std::vector<std::vector<int>> innerLevels(const Machines& machine);

/// [rank]: the rail of the adapter nearest to the rank, as in Shape::railOf; empty if no host has ranks on two of them.
std::vector<int> railsOf(const Machines& machine);

/// Whether `text` is what TUTTI_TOPO_CPUS may be.  Errors: InvalidUsage.
Status checkPlaces(const std::string& text);

/// Write the graph to TUTTI_TOPO_DUMP_FILE, if that is set, as NCCL's XML: what that can hold (processors' NUMA nodes,
/// PCIe devices and their links; no packages and caches).  Errors: SystemError.
Status dumpMachine(const Machines& machine);

/// "2 hosts, 4 sockets, 4 NUMA nodes, 8 L3s, 2 rails": in how many groups the ranks are at each level.
std::string describeLevels(const Machines& machine);

}  // namespace tutti
