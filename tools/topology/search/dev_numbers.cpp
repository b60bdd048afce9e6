#include "tools/topology/search/dev_numbers.hpp"

#include "tools/topology/search/host_model.hpp"

namespace tutti::topology {

DevNumbers::DevNumbers(const Graph& graph, int host) {
  std::vector<int> ports;
  for (const int port : portsOf(graph)) {
    if (graph.hostOf(port) == host) ports.push_back(port);
  }
  gpus_ = number(graph, graph.all(NodeKind::Gpu, host));
  numas_ = number(graph, graph.all(NodeKind::Numa, host));
  ports_ = number(graph, ports);
}

/// The system's own numbers where every device has one and none twice, else places.
DevNumbers::Numbered DevNumbers::number(const Graph& graph, const std::vector<int>& nodes) {
  Numbered all;
  for (const int node : nodes) {
    const int index = graph.nodes[static_cast<size_t>(node)].index;
    if (index < 0 || !all.emplace(index, node).second) {
      all.clear();
      for (size_t i = 0; i < nodes.size(); ++i) all[static_cast<int>(i)] = nodes[i];
      break;
    }
  }
  for (const auto& [index, node] : all) numberOf_[node] = index;
  return all;
}

}  // namespace tutti::topology
