#include "src/topology/graph.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <set>

namespace tutti::topology {

int Graph::add(Node node) {
  nodes.push_back(std::move(node));
  return static_cast<int>(nodes.size()) - 1;
}

void Graph::connect(Link link) { links.push_back(link); }

void Graph::note(std::string sentence) {
  if (std::find(notes.begin(), notes.end(), sentence) == notes.end()) notes.push_back(std::move(sentence));
}

std::vector<int> Graph::all(NodeKind kind, int host) const {
  std::vector<int> found;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    if (nodes[i].kind == kind && (host < 0 || hostOf(node) == host)) found.push_back(node);
  }
  return found;
}

std::vector<int> Graph::children(int node) const {
  std::vector<int> found;
  for (size_t i = static_cast<size_t>(node) + 1; i < nodes.size(); ++i) {
    if (nodes[i].parent == node) found.push_back(static_cast<int>(i));
  }
  return found;
}

std::vector<int> Graph::children(int node, NodeKind kind) const {
  std::vector<int> found = children(node);
  std::erase_if(found, [&](int child) { return nodes[static_cast<size_t>(child)].kind != kind; });
  return found;
}

int Graph::enclosing(int node, NodeKind kind) const {
  while (node >= 0 && nodes[static_cast<size_t>(node)].kind != kind) node = nodes[static_cast<size_t>(node)].parent;
  return node;
}

int Graph::byBusId(std::string_view busId, int host) const {
  const std::string wanted = canonicalBusId(busId);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!wanted.empty() && nodes[i].busId == wanted && hostOf(static_cast<int>(i)) == host) return static_cast<int>(i);
  }
  return -1;
}

int Graph::linkBetween(int a, int b, LinkKind kind) const {
  for (size_t i = 0; i < links.size(); ++i) {
    const Link& l = links[i];
    if (l.kind == kind && ((l.a == a && l.b == b) || (l.a == b && l.b == a))) return static_cast<int>(i);
  }
  return -1;
}

namespace {

bool mayHold(NodeKind parent, NodeKind child) {
  const auto among = [](NodeKind kind, std::initializer_list<NodeKind> kinds) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  };
  using enum NodeKind;
  switch (child) {
    case Host: return false;
    case Package: return among(parent, {Host, Numa});
    case Numa: return among(parent, {Host, Package, L3});
    case L3: return among(parent, {Host, Package, Numa});
    case Core: return among(parent, {Host, Package, Numa, L3});
    case Net: return parent == Nic;
    case NvSwitch:
    case Nic:
    case PciSwitch:
    case Gpu:
    case PciDevice: return among(parent, {Host, Package, Numa, PciSwitch});
  }
  return false;
}

std::string checkNode(const Graph& g, int i) {
  const Node& n = g.nodes[static_cast<size_t>(i)];
  if (n.kind == NodeKind::Host) return n.parent == -1 ? "" : cat("host ", i, " is inside node ", n.parent);
  if (n.parent < 0 || n.parent >= i) return cat("node ", i, " comes before its parent ", n.parent);
  const NodeKind above = g.nodes[static_cast<size_t>(n.parent)].kind;
  if (!mayHold(above, n.kind)) return cat("a ", kindName(n.kind), " inside a ", kindName(above), " (node ", i, ")");
  return "";
}

}  // namespace

std::string Graph::check() const {
  std::set<std::pair<int, std::string>> seen;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    if (std::string why = checkNode(*this, node); !why.empty()) return why;
    if (nodes[i].busId.empty()) continue;
    if (!seen.insert({hostOf(node), nodes[i].busId}).second) return cat("two nodes with bus id ", nodes[i].busId);
  }
  const int n = static_cast<int>(nodes.size());
  for (const Link& l : links) {
    if (l.a < 0 || l.a >= n || l.b < 0 || l.b >= n || l.a == l.b) return cat("a link from ", l.a, " to ", l.b);
    if (l.count < 1 || !std::isfinite(l.gbps) || l.gbps <= 0) {
      return cat("a link between ", describe(*this, l.a), " and ", describe(*this, l.b), " without bandwidth");
    }
    if (hostOf(l.a) != hostOf(l.b))
      return cat("a link between hosts: ", describe(*this, l.a), ", ", describe(*this, l.b));
  }
  return "";
}

const char* kindName(NodeKind kind) {
  switch (kind) {
    case NodeKind::Host: return "host";
    case NodeKind::Package: return "package";
    case NodeKind::Numa: return "NUMA node";
    case NodeKind::L3: return "L3";
    case NodeKind::Core: return "core";
    case NodeKind::PciSwitch: return "PCIe switch";
    case NodeKind::Gpu: return "GPU";
    case NodeKind::Nic: return "NIC";
    case NodeKind::Net: return "net";
    case NodeKind::NvSwitch: return "NVSwitch";
    case NodeKind::PciDevice: return "device";
  }
  return "?";
}

const char* kindName(LinkKind kind) {
  switch (kind) {
    case LinkKind::Pci: return "PCIe";
    case LinkKind::PciPeer: return "PCIe peer";
    case LinkKind::NvLink: return "NVLink";
    case LinkKind::Xgmi: return "xGMI";
    case LinkKind::C2C: return "C2C";
    case LinkKind::Socket: return "socket";
    case LinkKind::Port: return "port";
  }
  return "?";
}

std::string canonicalBusId(std::string_view text) {
  const std::string given(text);
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  int end = -1;
  bool full = std::sscanf(given.c_str(), "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) == 4;
  if (!full || end != static_cast<int>(given.size())) {
    domain = 0;
    end = -1;
    full = std::sscanf(given.c_str(), "%2x:%2x.%1x%n", &bus, &device, &function, &end) == 3;
  }
  if (full && end == static_cast<int>(given.size()) && domain <= 0xffff) {
    char canonical[32];
    std::snprintf(canonical, sizeof canonical, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return canonical;
  }
  std::string lower;
  for (const char c : given) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string describe(const Graph& graph, int node) {
  const Node& n = graph.nodes[static_cast<size_t>(node)];
  return n.busId.empty() || n.busId == n.name ? n.name : cat(n.name, " (", n.busId, ")");
}

}  // namespace tutti::topology
