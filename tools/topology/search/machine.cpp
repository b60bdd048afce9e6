#include "tools/topology/search/machine.hpp"

#include <algorithm>
#include <map>

namespace tutti::topology {

Machine machineOf(const Graph& graph, const std::vector<int>& devices) {
  Machine machine;
  std::map<int, size_t> turn;  // of a host's node: place of its first device
  for (size_t i = 0; i < devices.size(); ++i) turn.emplace(graph.hostOf(devices[i]), i);
  for (HostPart& part : hostParts(graph, devices)) {
    if (!part.devices.empty()) machine.hosts.push_back(std::move(part));
  }
  std::sort(machine.hosts.begin(), machine.hosts.end(),
            [&](const HostPart& a, const HostPart& b) { return turn[a.nodes.front()] < turn[b.nodes.front()]; });
  for (size_t h = 0; h < machine.hosts.size(); ++h) {
    size_t kind = 0;
    while (kind < machine.models.size() && !machine.hosts[h].alike(machine.hosts[machine.firstOf[kind]])) ++kind;
    if (kind == machine.models.size()) {
      machine.models.push_back(modelOf(machine.hosts[h]));
      machine.firstOf.push_back(h);
    }
    machine.modelOf.push_back(kind);
  }
  return machine;
}

}  // namespace tutti::topology
