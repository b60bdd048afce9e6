// The hosts that take part, in ring order, and one model for all of them that are alike.
#pragma once

#include <vector>

#include "tools/topology/search/host_model.hpp"

namespace tutti::topology {

struct Machine {
  std::vector<HostPart> hosts;    // only those with devices
  std::vector<HostModel> models;  // one for each kind of host
  std::vector<size_t> modelOf;    // [host]
  std::vector<size_t> firstOf;    // [model]: a host that it was made of

  const HostModel& model(size_t host) const { return models[modelOf[host]]; }
  /// Nodes of the whole graph.
  int node(size_t host, int partNode) const { return hosts[host].nodes[static_cast<size_t>(partNode)]; }
};

Machine machineOf(const Graph& graph, const std::vector<int>& devices);

}  // namespace tutti::topology
