// The machine that this process runs on.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// hwloc's view (packages, caches, NUMA nodes, PCI devices) with what /sys adds; /sys alone where there is no hwloc.
/// Notes say what could not be seen.  Takes tens of milliseconds; any thread.
/// NVLinks need NVML, which is not asked yet: it would come in here, between hwloc and complete().
/// Errors: InvalidArgument if what the system shows contradicts itself.
Result<Graph> detect();

/// What /sys alone tells, in a few milliseconds: for communicators.  Any thread.
/// Errors: as detect().
Result<Graph> detectBySystem();

/// The topology to plan with: TUTTI_TOPO_FILE's (a file or a line of text), else the detected one.
/// Errors: those of loadTopology and detect.
Result<Graph> currentTopology();

}  // namespace tutti::topology
