// What NVIDIA's libraries add to a graph: links between GPUs and what a GPU is.  Both libraries are looked up at run
// time and their few functions are declared here, so that neither is needed to build or to start.  They stay loaded
// once they were: they do not promise to survive being unloaded.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// Whether there is a reason to ask: an NVIDIA GPU in the graph, or the driver's device file (containers that hide PCI
/// have that).
bool showsNvidia(const Graph& graph);

/// By NVML: NVLink neighbours, generation and NVSwitches, UUIDs, compute capabilities, MIG.  GPUs that the system shows
/// no PCI device for are added to the first host's first NUMA node.  Links of a GPU that MIG cuts into parts are left
/// out, as its parts cannot use them.  Starts no CUDA context; tens of milliseconds. What cannot be seen (no library,
/// no driver, a call that fails, a neighbour that is hidden) is a note, never an error.
void addByNvml(Graph& graph, const char* library = "libnvidia-ml.so.1");

/// The same for a graph that a file gave, of a machine that this process runs on: for the GPUs whose links nobody told,
/// as NCCL asks for what its file leaves open.  Adds no GPU, and leaves alone what is told.
void completeByNvml(Graph& graph, const char* library = "libnvidia-ml.so.1");

/// By the CUDA driver, for the GPUs that this process may use (CUDA_VISIBLE_DEVICES): CUDA's numbers of them, names,
/// compute capabilities, multiprocessors, memory.  Starts the driver in this process, which can take a second.
/// What cannot be seen is a note.
void addByCuda(Graph& graph, const char* library = "libcuda.so.1");

}  // namespace tutti::topology
