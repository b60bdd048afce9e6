#include <algorithm>
#include <cmath>

#include "src/topology/paths.hpp"
#include "src/topology/rates.hpp"
#include "src/topology/untold.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

std::string padded(const std::string& text, size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

/// Figures that are not told whole have a star.
std::string bandwidth(const Path& path, const AssumedLinks& assumed) {
  if (!std::isfinite(path.gbps)) return "-";
  return cat(formatGBps(path.gbps), assumed.on(path.nodes) ? "*" : "");
}

template <class Cell>
std::string table(const Graph& g, const std::vector<int>& devices, const std::string& corner, const Cell& cell) {
  const auto name = [&](int node) { return g.nodes[static_cast<size_t>(node)].name; };
  size_t first = corner.size();
  for (const int node : devices) first = std::max(first, name(node).size());
  std::string text = corner + std::string(first - corner.size(), ' ');
  std::vector<size_t> widths;
  for (const int node : devices) {
    widths.push_back(std::max<size_t>(5, name(node).size()));
    text += cat("  ", padded(name(node), widths.back()));
  }
  text += "\n";
  for (const int a : devices) {
    text += name(a) + std::string(first - name(a).size(), ' ');
    for (size_t i = 0; i < devices.size(); ++i) text += cat("  ", padded(cell(a, devices[i]), widths[i]));
    text += "\n";
  }
  return text;
}

}  // namespace

std::string pathTable(const Graph& graph, const Paths& paths) {
  std::string text;
  const AssumedLinks assumed(graph);
  const std::string footnote = section("* not told", untold(graph));
  const std::vector<int> hosts = graph.all(NodeKind::Host);
  for (const int host : hosts) {
    std::vector<int> devices;
    for (const NodeKind kind : {NodeKind::Gpu, NodeKind::Net, NodeKind::Nic, NodeKind::Numa}) {
      for (const int node : graph.all(kind, host)) {
        if (paths.between(node, node).ok()) devices.push_back(node);
      }
    }
    const auto path = [&](int a, int b) { return paths.between(a, b).value(); };
    if (hosts.size() > 1) text += graph.nodes[static_cast<size_t>(host)].name + "\n";
    text += table(graph, devices, "class", [&](int a, int b) { return std::string(className(path(a, b).type)); });
    text +=
        cat("\n", table(graph, devices, "GB/s", [&](int a, int b) { return bandwidth(path(a, b), assumed); }), "\n");
  }
  if (hosts.size() < 2) return text + footnote;
  const auto first = [&](int host) {
    const std::vector<int> gpus = graph.all(NodeKind::Gpu, host);
    return gpus.empty() ? graph.all(NodeKind::Numa, host).at(0) : gpus[0];
  };
  const Path path = paths.between(first(hosts[0]), first(hosts[1])).value();
  text += cat("from the first host to the second: ", className(path.type), ", ", bandwidth(path, assumed), " GB/s");
  const char* before = ": ";
  for (size_t i = 0; i < path.nodes.size(); ++i) {
    const int node = path.nodes[i];
    const bool end = i == 0 || i + 1 == path.nodes.size();
    if (!end && graph.nodes[static_cast<size_t>(node)].kind == NodeKind::Nic) continue;  // its port says as much
    text += cat(before, graph.nodes[static_cast<size_t>(node)].name);
    before = " > ";
  }
  return cat(text, "\n", footnote);
}

}  // namespace tutti::topology
