#include "src/topology/complete.hpp"

#include <set>

#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

std::string nicName(const Graph& g, const std::vector<int>& nets, int ordinal) {
  return nets.size() == 1 ? g.nodes[static_cast<size_t>(nets[0])].name : cat("NIC ", ordinal);
}

/// GPUs and net devices carry the system's number; the others are counted within their host.
void nameNodes(Graph& g, const std::vector<std::vector<int>>& children) {
  std::vector<std::vector<int>> counters(g.nodes.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    auto& counter = counters[static_cast<size_t>(n.kind == NodeKind::Host ? 0 : g.hostOf(static_cast<int>(i)))];
    if (counter.empty()) counter.resize(kNumNodeKinds);
    const int ordinal = counter[static_cast<size_t>(n.kind)]++;
    if (!n.name.empty()) continue;
    const int number = n.index >= 0 ? n.index : ordinal;
    switch (n.kind) {
      case NodeKind::Numa: n.name = n.index < 0 ? "NUMA ?" : cat("NUMA ", n.index); break;
      case NodeKind::PciSwitch: n.name = n.busId.empty() ? cat("switch ", number) : cat("switch ", n.busId); break;
      case NodeKind::NvSwitch: n.name = cat("NVSwitch ", ordinal); break;
      case NodeKind::PciDevice: n.name = cat("device ", n.busId); break;
      case NodeKind::Nic: break;  // after their ports
      default: n.name = cat(kindName(n.kind), " ", number);
    }
  }
  int ordinal = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (g.nodes[i].kind == NodeKind::Host) ordinal = 0;
    if (g.nodes[i].kind != NodeKind::Nic) continue;
    if (g.nodes[i].name.empty()) g.nodes[i].name = nicName(g, children[i], ordinal);
    ++ordinal;
  }
}

void connectSockets(Graph& g) {
  std::set<std::pair<int, int>> known;
  for (const Link& l : g.links) {
    if (l.kind == LinkKind::Socket) known.insert({std::min(l.a, l.b), std::max(l.a, l.b)});
  }
  std::vector<std::vector<int>> numaOf(g.nodes.size());
  for (const int numa : g.all(NodeKind::Numa)) numaOf[static_cast<size_t>(g.hostOf(numa))].push_back(numa);
  for (const auto& numas : numaOf) {
    for (size_t i = 0; i < numas.size(); ++i) {
      for (size_t j = i + 1; j < numas.size(); ++j) {
        if (known.count({numas[i], numas[j]}) != 0) continue;
        const double gbps = socketGBps(g.nodes[static_cast<size_t>(numas[i])].cpu);
        g.connect({numas[i], numas[j], LinkKind::Socket, 1, gbps, true});
      }
    }
  }
}

}  // namespace

Status complete(Graph& graph) {
  if (graph.nodes.size() > Graph::kMostNodes)
    return invalidArgument(ErrorCode::TopologyTooLarge, "more than ", Graph::kMostNodes, " nodes");
  if (std::string why = graph.check(); !why.empty()) return invalidArgument(ErrorCode::TopologyFile, why);
  nameNodes(graph, childLists(graph));
  connectSockets(graph);
  return {};
}

std::vector<std::vector<int>> childLists(const Graph& graph) {
  std::vector<std::vector<int>> lists(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int parent = graph.nodes[i].parent;
    if (parent >= 0) lists[static_cast<size_t>(parent)].push_back(static_cast<int>(i));
  }
  return lists;
}

NodeKind kindOfPciClass(const PciInfo& pci) {
  constexpr int kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;
  const int base = pci.classCode >> 16, sub = pci.classCode >> 8;
  if (pci.classCode < 0) return NodeKind::PciDevice;
  if (sub == 0x0302 || base == 0x12) return NodeKind::Gpu;
  if (base == 0x03) {
    const bool computes = pci.vendor == kNvidia || pci.vendor == kAmd || pci.vendor == kIntel || pci.vendor < 0;
    return computes ? NodeKind::Gpu : NodeKind::PciDevice;
  }
  if (base == 0x02 || sub == 0x0c06) return NodeKind::Nic;
  if (sub == 0x0680 && (pci.vendor == kNvidia || pci.vendor < 0)) return NodeKind::NvSwitch;
  if (sub == 0x0604 || sub == 0x0609 || sub == 0x0600) return NodeKind::PciSwitch;
  return NodeKind::PciDevice;
}

}  // namespace tutti::topology
