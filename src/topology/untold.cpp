#include "src/topology/untold.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

constexpr int kVendorNvidia = 0x10de, kVendorAmd = 0x1002;

/// "8 GPUs (GPU 0, ...)"
std::string several(size_t count, const std::string& what, const std::string& first) {
  return cat(count, " ", what, count == 1 ? "" : "s", " (", first, count == 1 ? ")" : ", ...)");
}

class Untold {
 public:
  Untold(const Graph& graph, const UsedPart& used) : g_(graph), used_(used) {}

  std::vector<std::string> say() {
    devices();
    gpuLinks();
    switchLinks();
    links(LinkKind::Pci, "PCIe speed", "link");
    links(LinkKind::PciPeer, "PCIe speed between switches", "link");
    links(LinkKind::Port, "speed", "port");
    adapters();
    sockets();
    return std::move(phrases_);
  }

 private:
  const Node& at(int node) const { return g_.nodes[static_cast<size_t>(node)]; }
  bool isUsed(int node) const { return used_.nodes[static_cast<size_t>(node)]; }

  /// Links that a GPU may have and nobody told of, and why it may.
  using Gap = std::pair<std::string, std::string>;
  static Gap linksUntoldOf(const Node& n) {
    if (n.gpu.linksTold) return {};
    const auto of = [](const auto& generation) { return cat(", whose generation (", generation, ") has them"); };
    if (n.pci.vendor == kVendorAmd || !n.gpu.gcn.empty()) {
      if (n.gpu.gcn.empty()) return {"xGMI links and architecture", ""};
      return mayHaveXgmi(n.gpu.gcn) ? Gap{"xGMI links", of(n.gpu.gcn)} : Gap{};
    }
    if (n.pci.vendor != kVendorNvidia && n.pci.vendor >= 0) return {};
    if (n.gpu.sm == 0) return {"NVLinks and compute capability", ""};
    return mayHaveNvlinks(n.gpu.sm) ? Gap{"NVLinks", of(cat("sm ", n.gpu.sm))} : Gap{};
  }

  void gpuLinks() {
    const std::vector<int> gpus = g_.all(NodeKind::Gpu);
    std::map<int, size_t> onHost;
    for (const int gpu : gpus) onHost[g_.hostOf(gpu)] += isUsed(gpu);
    std::set<int> joined;
    for (const Link& l : g_.links) {
      if (l.kind == LinkKind::NvLink || l.kind == LinkKind::Xgmi) joined.insert({l.a, l.b});
    }
    std::map<Gap, std::vector<int>> gaps;
    for (const int gpu : gpus) {
      if (!isUsed(gpu) || onHost[g_.hostOf(gpu)] < 2 || joined.contains(gpu)) continue;
      if (const Gap gap = linksUntoldOf(at(gpu)); !gap.first.empty()) gaps[gap].push_back(gpu);
    }
    for (const auto& [gap, of] : gaps) {
      phrases_.push_back(cat(gap.first, " of ", several(of.size(), "GPU", at(of.front()).name), gap.second,
                             ": only PCIe and sockets are counted between them"));
    }
  }

  /// NVSwitches that different GPUs hang on are there to join these, by links that no driver lists (DGX-2).
  void switchLinks() {
    std::vector<int> group(g_.nodes.size());
    std::iota(group.begin(), group.end(), 0);
    const auto groupOf = [&](int node) {
      while (group[static_cast<size_t>(node)] != node) node = group[static_cast<size_t>(node)];
      return node;
    };
    for (const Link& l : g_.links) {
      if (l.kind == LinkKind::NvLink) group[static_cast<size_t>(groupOf(l.a))] = groupOf(l.b);
    }
    std::map<int, std::set<int>> groups;  // of a host, with used GPUs
    for (const Link& l : g_.links) {
      if (l.kind != LinkKind::NvLink) continue;
      const int gpu = at(l.a).kind == NodeKind::Gpu ? l.a : l.b, other = gpu == l.a ? l.b : l.a;
      const bool up = at(gpu).kind == NodeKind::Gpu && at(other).kind == NodeKind::NvSwitch;
      if (up && isUsed(gpu)) groups[g_.hostOf(gpu)].insert(groupOf(gpu));
    }
    size_t most = 0;
    for (const auto& [host, of] : groups) most = std::max(most, of.size());
    if (most < 2) return;
    phrases_.push_back(
        cat("links between NVSwitches, of which ", most, " groups have GPUs of their own: none is counted"));
  }

  /// Devices of which only the place is known: GPUs may be among them.
  void devices() {
    std::vector<int> unknown;
    for (const int device : g_.all(NodeKind::PciDevice)) {
      if (at(device).pci.classCode < 0) unknown.push_back(device);
    }
    if (unknown.empty()) return;
    phrases_.push_back(cat("what ", several(unknown.size(), "device", at(unknown.front()).name),
                           unknown.size() == 1 ? " is: it is" : " are: they are",
                           " counted neither as GPU nor as adapter"));
  }

  std::string assumedOf(double least, double most) const {
    const std::string range = least == most ? formatGBps(least) : cat(formatGBps(least), " to ", formatGBps(most));
    return cat(range, " GB/s ", least == most ? "is" : "are", " assumed");
  }

  /// Links of a kind whose bandwidth is assumed.
  void links(LinkKind kind, const char* what, const char* noun) {
    size_t count = 0;
    double least = 0, most = 0;
    std::string first;
    for (size_t i = 0; i < g_.links.size(); ++i) {
      const Link& l = g_.links[i];
      if (l.kind != kind || !l.assumed || !used_.links[i]) continue;
      least = count == 0 ? l.gbps : std::min(least, l.gbps);
      most = std::max(most, l.gbps);
      if (++count == 1) first = kind == LinkKind::Port ? at(l.b).name : cat(at(l.a).name, " - ", at(l.b).name);
    }
    if (count > 0) phrases_.push_back(cat(what, " of ", several(count, noun, first), ": ", assumedOf(least, most)));
  }

  /// Adapters without ports: nobody says what goes out of them.
  void adapters() {
    std::vector<bool> hasPort(g_.nodes.size());
    for (const Node& n : g_.nodes) {
      if (n.kind == NodeKind::Net) hasPort[static_cast<size_t>(n.parent)] = true;
    }
    std::vector<int> bare;
    for (const int nic : g_.all(NodeKind::Nic)) {
      if (isUsed(nic) && !hasPort[static_cast<size_t>(nic)]) bare.push_back(nic);
    }
    if (bare.empty()) return;
    phrases_.push_back(cat("speed of ", several(bare.size(), "adapter", at(bare.front()).name),
                           ": what PCIe carries to each is taken for it"));
  }

  void sockets() {
    double least = 0, most = 0;
    bool any = false, known = true;
    for (size_t i = 0; i < g_.links.size(); ++i) {
      const Link& l = g_.links[i];
      if (l.kind != LinkKind::Socket || !l.assumed || !used_.links[i]) continue;
      least = any ? std::min(least, l.gbps) : l.gbps;
      most = std::max(most, l.gbps);
      any = true;
      known = known && !(at(l.a).cpu.arch.empty() && at(l.a).cpu.vendor.empty());
    }
    if (!any) return;
    phrases_.push_back(cat(known ? "bandwidth between NUMA nodes: " : "processors, and bandwidth between NUMA nodes: ",
                           assumedOf(least, most), known ? ", by the processors' model" : ""));
  }

  const Graph& g_;
  const UsedPart& used_;
  std::vector<std::string> phrases_;
};

}  // namespace

std::vector<std::string> untold(const Graph& graph) {
  return untold(graph, {std::vector<bool>(graph.nodes.size(), true), std::vector<bool>(graph.links.size(), true)});
}

std::vector<std::string> untold(const Graph& graph, const UsedPart& used) { return Untold(graph, used).say(); }

AssumedLinks::AssumedLinks(const Graph& graph) {
  for (const Link& l : graph.links) {
    if (l.assumed) ends_.insert(std::minmax(l.a, l.b));
  }
}

bool AssumedLinks::on(const std::vector<int>& way) const {
  for (size_t i = 0; i + 1 < way.size(); ++i) {
    if (ends_.contains(std::minmax(way[i], way[i + 1]))) return true;
  }
  return false;
}

}  // namespace tutti::topology
