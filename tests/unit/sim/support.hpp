// Clusters and questions that the tests of the simulator share.
#pragma once

#include <string>

#include "tools/cluster/simulate.hpp"

namespace tutti::sim::test {

inline Cluster clusterOf(const std::string& text) {
  auto cluster = parseCluster(text, "test");
  TUTTI_ASSERT(cluster.ok());
  return std::move(*cluster);
}

inline Network networkOf(const Cluster& cluster, const Faults& faults = {}) {
  auto network = Network::make(cluster, faults);
  TUTTI_ASSERT(network.ok());
  return std::move(*network);
}

inline Task taskOf(Collective collective, const std::string& algorithm, size_t bytes) {
  const Algorithm* found = findAlgorithm(collective, algorithm);
  TUTTI_ASSERT(found != nullptr);
  Task task;
  task.algorithm = found;
  task.bytes = bytes;
  task.options.sliceBytes = 1e15;  // nothing is cut: closed formulas know no slices
  return task;
}

/// One message of b bytes between two ranks of a node takes alpha + b / (1000 * gbps) microseconds; ranks reduce at
/// reduceGBps.  All ranks hang on one switch.
inline std::string plain(int ranks, double alpha, double gbps, double reduceGBps = 1e6) {
  return cat("machine gpu:", ranks, " nvlink:1x", gbps, "\nnear p latency:", alpha, "\nlaunch 0\nreduce ", reduceGBps);
}

inline double usOf(const Network& network, const Task& task, SimOptions options = {}) {
  const auto outcome = simulate(network, task, options);
  TUTTI_ASSERT(outcome.ok());
  return outcome->us;
}

}  // namespace tutti::sim::test
