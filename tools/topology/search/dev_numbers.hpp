// How graph files number the devices of a host: GPUs, ports and NUMA nodes each from 0.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "src/topology/graph.hpp"

namespace tutti::topology {

class DevNumbers {
 public:
  /// `host`: its node in the graph.
  DevNumbers(const Graph& graph, int host);

  int of(int node) const { return numberOf_.at(node); }
  /// -1 if the host has none of that number.
  int gpu(int number) const { return find(gpus_, number); }
  int numa(int number) const { return find(numas_, number); }
  int port(int number) const { return find(ports_, number); }

 private:
  using Numbered = std::map<int, int>;  // number to node
  static int find(const Numbered& all, int number) {
    const auto at = all.find(number);
    return at == all.end() ? -1 : at->second;
  }
  Numbered number(const Graph& graph, const std::vector<int>& nodes);

  std::map<int, int> numberOf_;
  Numbered gpus_, numas_, ports_;
};

}  // namespace tutti::topology
