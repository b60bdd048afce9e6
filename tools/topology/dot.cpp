#include <cmath>

#include "src/topology/complete.hpp"
#include "src/topology/rates.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

class Dot {
 public:
  explicit Dot(const Graph& graph) : g_(graph), children_(childLists(graph)) {}

  std::string print() {
    out_ =
        "graph machine {\n  node [shape=box, style=filled, fontname=Helvetica, fontsize=10];\n"
        "  edge [fontname=Helvetica, fontsize=9];\n  compound=true; newrank=true;\n";
    for (const int host : g_.all(NodeKind::Host)) show(host, 1);
    for (const Link& l : g_.links) edge(l);
    return out_ + "}\n";
  }

 private:
  const Node& at(int node) const { return g_.nodes[static_cast<size_t>(node)]; }

  void line(int depth, const std::string& text) {
    out_ += cat(std::string(static_cast<size_t>(depth) * 2, ' '), text, "\n");
  }

  /// Hosts, packages and NUMA nodes are clusters; a NUMA node is a box in its own as well, for links to end at.
  void show(int node, int depth) {
    const Node& n = at(node);
    switch (n.kind) {
      case NodeKind::Host:
      case NodeKind::Package:
      case NodeKind::Numa:
        line(depth, cat("subgraph cluster", node, " {"));
        line(depth + 1, cat("label=", quoted(n.name), ";"));
        if (n.kind == NodeKind::Numa) box(node, depth + 1, "#e3e9f2", cat("memory and ", n.cpus.count(), " CPUs"));
        for (const int child : children_[static_cast<size_t>(node)]) show(child, depth + 1);
        line(depth, "}");
        return;
      case NodeKind::L3:
      case NodeKind::Core: return;  // in the count of CPUs
      case NodeKind::PciSwitch: box(node, depth, "#d9e6f5", pcieName(n.pci)); break;
      case NodeKind::Gpu: box(node, depth, "#e4f2cf", n.busId); break;
      case NodeKind::Nic: box(node, depth, "#fde8d0", n.busId); break;
      case NodeKind::Net:
        box(node, depth, "#fff4e6", n.net.speedMbps > 0 ? cat(n.net.speedMbps / 1000.0, " Gb/s") : std::string());
        break;
      case NodeKind::NvSwitch: box(node, depth, "#cfe8ae", n.busId); break;
      case NodeKind::PciDevice: box(node, depth, "#eceef1", n.busId); break;
    }
    for (const int child : children_[static_cast<size_t>(node)]) show(child, depth);
  }

  void box(int node, int depth, const char* color, const std::string& second) {
    std::string label = quoted(at(node).name);
    if (!second.empty()) label.insert(label.size() - 1, cat("\\n", second));
    line(depth, cat("n", node, " [fillcolor=\"", color, "\", label=", label, "];"));
  }

  void edge(const Link& l) {
    const char* color = l.kind == LinkKind::NvLink || l.kind == LinkKind::Xgmi ? "#5b9a1f"
                        : l.kind == LinkKind::Socket                           ? "#7a5aa6"
                        : l.kind == LinkKind::Port                             ? "#d9822b"
                        : l.kind == LinkKind::C2C                              ? "#2f9e8f"
                                                                               : "#4f81bd";
    line(1, cat("n", l.a, " -- n", l.b, " [color=\"", color,
                "\", penwidth=", formatGBps(0.8 + 0.95 * std::log2(1 + l.gbps / 12)), ", label=\"", formatGBps(l.gbps),
                "\"", l.assumed ? ", style=dashed" : "", l.kind == LinkKind::Socket ? ", constraint=false" : "", "];"));
  }

  const Graph& g_;
  std::vector<std::vector<int>> children_;
  std::string out_;
};

}  // namespace

std::string toDot(const Graph& graph) { return Dot(graph).print(); }

}  // namespace tutti::topology
