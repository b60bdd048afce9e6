// The machine that this process runs on.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// hwloc's view (packages, caches, NUMA nodes, PCI devices) with what /sys adds; /sys alone where there is no hwloc.
/// NVIDIA GPUs and the links between them by NVML and the CUDA driver, where these are (nvidia.hpp).
/// Notes say what could not be seen.  Takes tens of milliseconds, with GPUs up to seconds; any thread.
/// Errors: InvalidArgument if what the system shows contradicts itself.
Result<Graph> detect();

/// What /sys tells, in a few milliseconds, and NVML where there are NVIDIA GPUs: for communicators.  Does not start the
/// CUDA driver.  Any thread.
/// Errors: as detect().
Result<Graph> detectBySystem();

/// The topology to plan with: TUTTI_TOPO_FILE's (a file or a line of text), else the detected one.
/// Errors: those of loadTopology and detect.
Result<Graph> currentTopology();

}  // namespace tutti::topology
