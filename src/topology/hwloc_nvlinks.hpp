// NVLinks of hwloc's descriptions: the matrix "NVLinkBandwidth" of a system whose hwloc asked NVML.
// Only for builds with hwloc.
#pragma once

#include <map>

#include "src/topology/graph.hpp"
#include "src/topology/hwloc_library.hpp"

namespace tutti::topology {

/// Join what the matrix joins, as far as it is in the graph.  nodes: of hwloc's objects.  Does nothing without a
/// matrix.
void connectNvlinks(hwloc_topology_t topology, const std::map<hwloc_obj_t, int>& nodes, Graph& graph);

}  // namespace tutti::topology
