// What figures rest on that a description does not tell.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// Phrases that go on from "not told: ", one for each kind of thing, with what is taken in its place: "bandwidth
/// between NUMA nodes: 22 GB/s is assumed, by the processors' model".  None where everything is known.
std::vector<std::string> untold(const Graph& graph);

/// A part of a graph: what some figure rests on.
struct UsedPart {
  std::vector<bool> nodes, links;  // as those of the graph
};
/// The same of a part: its assumed links, its GPUs' links to each other, the ports of its adapters; and devices of the
/// graph that may belong to it.
std::vector<std::string> untold(const Graph& graph, const UsedPart& used);

/// The links of a graph whose bandwidth is assumed.  A value.
class AssumedLinks {
 public:
  explicit AssumedLinks(const Graph& graph);
  /// Whether one of them is on the way along these nodes.
  bool on(const std::vector<int>& way) const;

 private:
  std::set<std::pair<int, int>> ends_;
};

}  // namespace tutti::topology
