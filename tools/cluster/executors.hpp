// How Tutti's CUDA executors would send on a described machine, by the figures that its planner has of them
// (src/cost/device_costs.hpp), in place of the protocols of a description.
#pragma once

#include "tools/cluster/cluster.hpp"

namespace tutti::sim {

/// As TUTTI_CUDA_EXECUTOR names them.
enum class Executor {
  Auto,      // what `auto` takes: Stream on one node, Proxy on several
  Resident,  // blocks of kernels: packets of up to 4 KiB, longer messages through slots; one node
  Stream,    // operations that the host enqueues; one node
  Proxy,     // between nodes a thread of the host, inside nodes streams
};
/// "auto, resident, stream, proxy" in messages.
Result<Executor> parseExecutor(const std::string& name);
const char* executorName(Executor executor);
/// What Auto stands for there.
Executor executorOf(Executor executor, const Cluster& cluster);

/// Gives the cluster the executor's messages (near, far), its launch, the rates at which its lanes copy and combine,
/// its slices and its channels.  What the description names itself stays. Errors: InvalidArgument if the machine has no
/// GPUs that run CUDA, or the executor is not for so many nodes.
Status useExecutor(Executor executor, Cluster* cluster);

}  // namespace tutti::sim
