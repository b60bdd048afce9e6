// Which ranks are near each other, at every level of the machine: what hierarchical algorithms are built on.
#pragma once

#include <array>
#include <vector>

#include "src/topology/graph.hpp"

namespace tutti::topology {

enum class Level { Process, L3, Numa, Socket, Host, Rail, Cluster };
constexpr int kNumLevels = static_cast<int>(Level::Cluster) + 1;

/// Where a rank runs.
struct RankPlace {
  uint64_t hostHash = 0;
  int64_t process = 0;  // tells the processes of a host apart
  CpuSet cpus;          // that it may run on; empty: all of the host's
  std::string busId;    // of its GPU; "" for a rank on host memory.  A rank with a GPU is where the GPU is
};

/// [level][rank]: the group that the rank belongs to, numbered from 0 by the lowest rank in it.  Groups of Process to
/// Host and Cluster are nested.  A rank that spans several caches (or NUMA nodes, or sockets) forms its group with the
/// others that span the same.  Rail cuts across hosts: ranks whose nearest port has the same rail number, or the same
/// place among its host's ports where files give no number; without ports the host's group.
using LevelGroups = std::array<std::vector<int>, kNumLevels>;

/// Errors: InvalidArgument that names the rank whose host or GPU the graph does not have.
Result<LevelGroups> levelGroups(const Graph& graph, const std::vector<RankPlace>& ranks);

/// What hierarchical algorithms are built on: groups of ranks inside hosts, the coarsest first; [i][rank] as in
/// Shape::inner.  Levels that separate nobody, or everybody, are left out, as are those that are as the one before.
std::vector<std::vector<int>> innerLevels(const LevelGroups& groups);

}  // namespace tutti::topology
