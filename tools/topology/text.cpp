#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "src/topology/complete.hpp"
#include "src/topology/rates.hpp"
#include "src/topology/untold.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string memory(size_t bytes) {
  if (bytes == 0) return "";
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib >= 1024 ? cat(", ", std::lround(mib / 1024), " GiB") : cat(", ", std::lround(mib), " MiB");
}

std::string gpuText(const Node& n) {
  std::string text;
  if (n.gpu.sm > 0 && n.gpu.gcn.empty()) text += cat(", sm ", n.gpu.sm);
  if (!n.gpu.gcn.empty()) text += cat(", ", n.gpu.gcn);
  if (n.gpu.multiprocessors > 0) text += cat(", ", n.gpu.multiprocessors, " multiprocessors");
  text += memory(n.memoryBytes);
  if (n.gpu.nvlinkGeneration > 0) text += cat(", NVLink ", n.gpu.nvlinkGeneration);
  if (n.gpu.migParts >= 0) text += cat(", MIG: ", n.gpu.migParts, " parts");
  if (n.gpu.rank >= 0) text += cat(", rank ", n.gpu.rank);
  if (!n.gpu.uuid.empty()) text += cat(", ", n.gpu.uuid);
  return text;
}

std::string netText(const Node& n) {
  std::string text =
      n.net.speedMbps > 0 ? cat(", ", n.net.speedMbps / 1000.0, " Gb/s") : std::string(", speed unknown");
  if (n.index >= 0) text += cat(", dev ", n.index);
  if (n.net.port >= 0) text += cat(", port ", n.net.port);
  if (n.net.rail >= 0) text += cat(", rail ", n.net.rail);
  if (n.net.plane >= 0) text += cat(", plane ", n.net.plane);
  return text;
}

class Tree {
 public:
  explicit Tree(const Graph& graph) : g_(graph), children_(childLists(graph)), up_(graph.nodes.size(), -1) {
    for (size_t i = 0; i < g_.links.size(); ++i) {
      const Link& l = g_.links[i];
      if (l.kind != LinkKind::Pci) continue;
      const int below = at(l.b).parent == l.a ? l.b : at(l.a).parent == l.b ? l.a : -1;
      if (below >= 0) up_[static_cast<size_t>(below)] = static_cast<int>(i);
    }
  }

  std::string print() {
    for (const int host : g_.all(NodeKind::Host)) show(host, 0);
    return std::move(out_);
  }

 private:
  const Node& at(int node) const { return g_.nodes[static_cast<size_t>(node)]; }

  void line(int depth, const std::string& text) {
    out_ += std::string(static_cast<size_t>(depth) * 2, ' ') + text + "\n";
  }

  std::string cpus(const Node& n) const {
    return n.cpus.empty() ? "" : cat(", ", n.cpus.count(), n.cpus.count() == 1 ? " CPU " : " CPUs ", n.cpus.list());
  }

  std::string pci(int node) const {
    const std::string name = pcieName(at(node).pci);
    const int up = up_[static_cast<size_t>(node)];
    std::string text = name.empty() ? "" : ", " + name;
    if (up < 0) return text;
    const Link& l = g_.links[static_cast<size_t>(up)];
    return cat(text, ", ", formatGBps(l.gbps), " GB/s", l.assumed ? " (assumed)" : "");
  }

  void show(int node, int depth) {
    const Node& n = at(node);
    const std::vector<int>& below = children_[static_cast<size_t>(node)];
    switch (n.kind) {
      case NodeKind::Host: line(depth, cat(n.name, n.hostHash != 0 ? ", hash " + hex(n.hostHash) : "")); break;
      case NodeKind::Package:
      case NodeKind::Numa: {
        const std::string cpu = cpuName(n.cpu);
        line(depth, cat(n.name, cpus(n), memory(n.memoryBytes), cpu.empty() ? "" : ", ", cpu));
        break;
      }
      case NodeKind::L3: return cache(node, depth);
      case NodeKind::Core: return;  // counted where they are
      case NodeKind::PciSwitch: line(depth, cat(n.name, pci(node))); break;
      case NodeKind::NvSwitch: line(depth, describe(g_, node)); break;
      case NodeKind::Gpu: line(depth, cat(describe(g_, node), gpuText(n), pci(node))); break;
      case NodeKind::PciDevice:
      case NodeKind::Nic: line(depth, cat(describe(g_, node), pci(node))); break;
      case NodeKind::Net: line(depth, cat(n.name, netText(n))); break;
    }
    const size_t cores = static_cast<size_t>(
        std::count_if(below.begin(), below.end(), [&](int child) { return at(child).kind == NodeKind::Core; }));
    if (cores > 0) line(depth + 1, cat(cores, cores == 1 ? " core" : " cores"));
    for (const int child : below) show(child, depth + 1);
  }

  void cache(int node, int depth) {
    const Node& n = at(node);
    const size_t cores = children_[static_cast<size_t>(node)].size();
    line(depth, cat(n.name, memory(n.memoryBytes), ", ", cores, cores == 1 ? " core" : " cores", cpus(n)));
  }

  const Graph& g_;
  std::vector<std::vector<int>> children_;
  std::vector<int> up_;
  std::string out_;
};

std::string linkText(const Graph& g, const Link& l) {
  return cat("  ", g.nodes[static_cast<size_t>(l.a)].name, " - ", g.nodes[static_cast<size_t>(l.b)].name, "  ",
             kindName(l.kind), l.count > 1 ? cat(" x", l.count) : std::string(), ", ", formatGBps(l.gbps), " GB/s",
             l.assumed ? " (assumed)" : "", "\n");
}

bool besideTheTree(const Link& l) { return l.kind != LinkKind::Pci && l.kind != LinkKind::Port; }

/// "4 x 48 GB/s" for every bandwidth that occurs.
std::string bandwidths(const std::map<double, int>& counts) {
  std::string text;
  for (const auto& [gbps, count] : counts) text += cat(text.empty() ? "" : ", ", count, " x ", formatGBps(gbps));
  return text.empty() ? "" : text + " GB/s";
}

}  // namespace

std::string pcieName(const PciInfo& pci) {
  if (pci.linkGTps <= 0 || pci.linkWidth <= 0) return "";
  constexpr std::pair<double, int> kGenerations[] = {{2.5, 1}, {5, 2}, {8, 3}, {16, 4}, {32, 5}, {64, 6}, {128, 7}};
  for (const auto& [speed, generation] : kGenerations) {
    if (speed == pci.linkGTps) return cat("PCIe ", generation, " x", pci.linkWidth);
  }
  return cat("PCIe ", pci.linkGTps, " GT/s x", pci.linkWidth);
}

std::string cpuName(const CpuInfo& cpu) {
  std::string text = cpu.vendor.empty() ? cpu.arch : cpu.vendor;
  if (cpu.family >= 0) text += cat(" family ", cpu.family);
  if (cpu.model >= 0) text += cat(" model ", cpu.model);
  return text;
}

std::string section(const char* head, const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += cat(text.empty() ? cat(head, "\n") : "", "  ", sentence, "\n");
  return text;
}

std::string gaps(const Graph& graph) { return section("left out", graph.leftOut) + section("not told", untold(graph)); }

std::string toText(const Graph& graph) {
  std::string text = Tree(graph).print();
  bool any = false;
  for (const Link& l : graph.links) {
    if (!besideTheTree(l)) continue;
    if (!any) text += "links\n";
    any = true;
    text += linkText(graph, l);
  }
  return text + gaps(graph) + section("notes", graph.notes);
}

std::string summary(const Graph& graph) {
  std::string text;
  for (int kind = 0; kind < kNumNodeKinds; ++kind) {
    const size_t count = graph.all(static_cast<NodeKind>(kind)).size();
    if (count > 0) text += cat(text.empty() ? "" : ", ", count, " ", kindName(static_cast<NodeKind>(kind)));
  }
  text += "\n";
  std::map<LinkKind, std::map<double, int>> links;
  for (const Link& l : graph.links) ++links[l.kind][l.gbps];
  for (const auto& [kind, counts] : links) text += cat(kindName(kind), ": ", bandwidths(counts), "\n");
  std::set<std::string> places;
  for (const NodeKind kind : {NodeKind::Gpu, NodeKind::Nic}) {
    for (const int node : graph.all(kind)) {
      const int numa = graph.enclosing(node, NodeKind::Numa), host = graph.hostOf(node);
      double lanes = 0;
      for (const Link& l : graph.links) {
        if ((l.a == node || l.b == node) && (l.kind == LinkKind::NvLink || l.kind == LinkKind::Xgmi)) lanes += l.gbps;
      }
      int switches = 0;
      for (int up = graph.nodes[static_cast<size_t>(node)].parent; up >= 0;
           up = graph.nodes[static_cast<size_t>(up)].parent) {
        switches += graph.nodes[static_cast<size_t>(up)].kind == NodeKind::PciSwitch;
      }
      places.insert(cat(graph.nodes[static_cast<size_t>(host)].name, " ", describe(graph, node), ": ",
                        numa >= 0 ? graph.nodes[static_cast<size_t>(numa)].name : "no NUMA node", ", ", switches,
                        switches == 1 ? " switch" : " switches", " above",
                        lanes > 0 ? cat(", ", formatGBps(lanes), " GB/s to its kind") : std::string(), "\n"));
    }
  }
  for (const std::string& place : places) text += place;
  for (const std::string& sentence : graph.leftOut) text += cat("left out: ", sentence, "\n");
  for (const std::string& sentence : untold(graph)) text += cat("not told: ", sentence, "\n");
  for (const std::string& note : graph.notes) text += cat("note: ", note, "\n");
  return text;
}

}  // namespace tutti::topology
