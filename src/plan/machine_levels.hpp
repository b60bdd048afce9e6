// How near ranks are on a machine graph, as the planner counts it.
#pragma once

#include "src/plan/planner.hpp"
#include "src/topology/levels.hpp"

namespace tutti {

/// The levels of `groups` that tell ranks apart, the smallest groups first, all ranks together last.  Ranks of one
/// process are joined by links.process, others of a host by links.intra, hosts by links.inter. Between sockets pass
/// what the graph's links between them carry, between hosts what the host's ports carry, where the graph knows.
MachineLevels machineLevels(const topology::Graph& graph, const topology::LevelGroups& groups, const LinkUse& links);

/// The socket, or without one the NUMA node, that a part of a host belongs to; -1 if none.
int socketOf(const topology::Graph& graph, int node);
/// GB/s out of the socket that has least, over its links to other sockets of its host; 0: not known.
double socketGBps(const topology::Graph& graph);

/// "8 processes, 2 sockets, 1 host": in how many groups the ranks are at each level, for tables.
std::string describe(const MachineLevels& levels);

}  // namespace tutti
