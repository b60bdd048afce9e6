#include "src/topology/paths.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <tuple>

#include "src/topology/complete.hpp"

namespace tutti::topology {
namespace {

/// What has been passed on the way so far; decides the class.
struct Passed {
  int switches = 0;  // PCIe
  int gpus = 0;      // GPUs passed through
  bool lanes = false, c2c = false, pci = false, cpu = false, socket = false;
};

PathClass classOf(const Passed& p, bool gpuToNic) {
  if (p.socket) return PathClass::Sys;
  if (p.c2c && p.pci) return gpuToNic ? PathClass::P2c : PathClass::Phb;
  if (p.pci && p.cpu) return PathClass::Phb;
  if (p.pci) return p.switches > 1 ? PathClass::Pxb : PathClass::Pix;
  if (p.c2c) return PathClass::C2c;
  if (p.lanes && p.gpus > 0) return PathClass::Nvb;
  return p.lanes ? PathClass::Nvl : PathClass::Loc;
}

struct Label {
  PathClass type = PathClass::Dis;
  int hops = 0;
  double gbps = 0;
  int from = -1;  // node before
  Passed passed;
  bool betterThan(const Label& other) const {
    return std::tuple(type, hops, -gbps) < std::tuple(other.type, other.hops, -other.gbps);
  }
};

bool isLane(LinkKind kind) { return kind == LinkKind::NvLink || kind == LinkKind::Xgmi; }

/// Where the network begins: ports, and adapters whose ports the description leaves out.
std::vector<bool> portMask(const Graph& graph) {
  std::vector<bool> isPort(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind == NodeKind::Nic) isPort[i] = true;
    if (graph.nodes[i].kind != NodeKind::Net) continue;
    isPort[i] = true;
    isPort[static_cast<size_t>(graph.nodes[i].parent)] = false;
  }
  return isPort;
}

class Search {
 public:
  explicit Search(const Graph& graph) : g_(graph), linksOf_(graph.nodes.size()), labels_(graph.nodes.size()) {
    for (size_t i = 0; i < g_.links.size(); ++i) {
      linksOf_[static_cast<size_t>(g_.links[i].a)].push_back(static_cast<int>(i));
      linksOf_[static_cast<size_t>(g_.links[i].b)].push_back(static_cast<int>(i));
    }
  }

  /// Best paths from one device to the wanted ones, as Dijkstra finds them: extending a way never makes it better.
  std::vector<Path> from(int start, const std::vector<int>& wanted) {
    for (const int node : touched_) at(node) = Label();
    touched_.assign(1, start);
    at(start) = {PathClass::Loc, 0, INFINITY, -1, {}};
    struct Entry {
      Label label;
      int node;
      bool operator<(const Entry& other) const { return other.label.betterThan(label); }  // the best on top
    };
    std::priority_queue<Entry> queue;
    queue.push({at(start), start});
    while (!queue.empty()) {
      const Entry next = queue.top();
      queue.pop();
      if (at(next.node).betterThan(next.label)) continue;
      for (const int index : linksOf_[static_cast<size_t>(next.node)]) {
        const Link& link = g_.links[static_cast<size_t>(index)];
        const int to = link.a == next.node ? link.b : link.a;
        Label label;
        if (!extend(next.label, next.node, link, to, start, &label)) continue;
        if (!label.betterThan(at(to))) continue;
        if (at(to).type == PathClass::Dis) touched_.push_back(to);
        at(to) = label;
        queue.push({label, to});
      }
    }
    std::vector<Path> paths;
    for (const int node : wanted) paths.push_back(pathTo(node));
    return paths;
  }

 private:
  Label& at(int node) { return labels_[static_cast<size_t>(node)]; }
  NodeKind kind(int node) const { return g_.nodes[static_cast<size_t>(node)].kind; }

  bool extend(const Label& so, int node, const Link& link, int to, int start, Label* out) const {
    if (node != start && !mayPass(so, node, link)) return false;
    Passed p = so.passed;
    if (node != start) {
      p.switches += kind(node) == NodeKind::PciSwitch;
      p.gpus += kind(node) == NodeKind::Gpu;
      p.cpu = p.cpu || kind(node) == NodeKind::Numa;
    }
    p.lanes = p.lanes || isLane(link.kind);
    p.c2c = p.c2c || link.kind == LinkKind::C2C;
    p.socket = p.socket || link.kind == LinkKind::Socket;
    // To or from memory itself the processor's bridge is passed as well.
    if (link.kind == LinkKind::Pci || link.kind == LinkKind::PciPeer) p.pci = true;
    if (kind(to) == NodeKind::Numa && p.pci) p.cpu = true;
    if (node == start && kind(node) == NodeKind::Numa && p.pci) p.cpu = true;
    const bool gpuAndNic =
        (kind(start) == NodeKind::Gpu && (kind(to) == NodeKind::Nic || kind(to) == NodeKind::Net)) ||
        (kind(to) == NodeKind::Gpu && (kind(start) == NodeKind::Nic || kind(start) == NodeKind::Net));
    *out = {classOf(p, gpuAndNic), so.hops + 1, std::min(so.gbps, link.gbps), node, p};
    return true;
  }

  /// Whether data may go through `node` and leave by `link`.
  bool mayPass(const Label& so, int node, const Link& link) const {
    switch (kind(node)) {
      case NodeKind::Gpu: {
        const bool onlyLanes = so.passed.lanes && !so.passed.pci && !so.passed.c2c && !so.passed.socket;
        return onlyLanes && isLane(link.kind) && so.passed.gpus == 0;
      }
      case NodeKind::Nic:  // between its ports and the machine, not from one side of the machine to another
        return link.kind == LinkKind::Port || (so.hops == 1 && kind(so.from) == NodeKind::Net);
      case NodeKind::Net: return false;
      case NodeKind::NvSwitch: return isLane(link.kind);
      default: return true;
    }
  }

  Path pathTo(int node) {
    Path path;
    if (at(node).type == PathClass::Dis) return path;
    path.type = at(node).type;
    path.gbps = at(node).gbps;
    for (int n = node; n >= 0; n = at(n).from) path.nodes.push_back(n);
    std::reverse(path.nodes.begin(), path.nodes.end());
    return path;
  }

  const Graph& g_;
  std::vector<std::vector<int>> linksOf_;
  std::vector<Label> labels_;
  std::vector<int> touched_;
};

/// Several NVSwitches side by side carry together what each carries alone: a GPU stripes over all of them.
double overSwitches(const Graph& g, const std::vector<std::vector<int>>& lanesOf, int a, int b) {
  double sum = 0;
  for (const int up : lanesOf[static_cast<size_t>(a)]) {
    const Link& first = g.links[static_cast<size_t>(up)];
    const int middle = first.a == a ? first.b : first.a;
    if (g.nodes[static_cast<size_t>(middle)].kind != NodeKind::NvSwitch) continue;
    for (const int down : lanesOf[static_cast<size_t>(b)]) {
      const Link& second = g.links[static_cast<size_t>(down)];
      if (second.a == middle || second.b == middle) sum += std::min(first.gbps, second.gbps);
    }
  }
  return sum;
}

}  // namespace

Paths::Paths(const Graph& graph)
    : hostOf_(graph.nodes.size(), -1),
      deviceOf_(graph.nodes.size(), -1),
      nets_(graph.nodes.size()),
      isPort_(portMask(graph)) {
  std::vector<std::vector<int>> lanesOf(graph.nodes.size());
  for (size_t i = 0; i < graph.links.size(); ++i) {
    if (!isLane(graph.links[i].kind)) continue;
    lanesOf[static_cast<size_t>(graph.links[i].a)].push_back(static_cast<int>(i));
    lanesOf[static_cast<size_t>(graph.links[i].b)].push_back(static_cast<int>(i));
  }
  std::vector<int> hostIndex(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    railOf_.push_back(graph.nodes[i].net.rail);
    if (graph.nodes[i].kind == NodeKind::Host) {
      hostIndex[i] = static_cast<int>(hosts_.size());
      hosts_.emplace_back();
    }
    hostOf_[i] = hostIndex[static_cast<size_t>(graph.hostOf(node))];
    const NodeKind kind = graph.nodes[i].kind;
    if (kind != NodeKind::Gpu && kind != NodeKind::Numa && !isPort_[i]) continue;
    std::vector<int>& devices = hosts_[static_cast<size_t>(hostOf_[i])].devices;
    deviceOf_[i] = static_cast<int>(devices.size());
    devices.push_back(node);
  }
  Search search(graph);
  for (Host& host : hosts_) {
    for (const int device : host.devices) {
      host.paths.push_back(search.from(device, host.devices));
      for (Path& path : host.paths.back()) {
        const bool gpus = path.type == PathClass::Nvl && path.hops() == 2;
        if (gpus) path.gbps = std::max(path.gbps, overSwitches(graph, lanesOf, path.nodes.front(), path.nodes.back()));
      }
    }
    usePeers(graph, host);
    spreadNets(graph, host);
  }
}

const Path& Paths::inside(const Host& host, int a, int b) const {
  return host.paths[static_cast<size_t>(deviceOf_[static_cast<size_t>(a)])]
                   [static_cast<size_t>(deviceOf_[static_cast<size_t>(b)])];
}

/// A GPU far from a port hands its data over NVLink to one that is near it (PXN), where that beats its own way.
void Paths::usePeers(const Graph& graph, Host& host) {
  const auto isKind = [&](int node, NodeKind kind) { return graph.nodes[static_cast<size_t>(node)].kind == kind; };
  const auto at = [&](int a, int b) -> Path& {
    return host.paths[static_cast<size_t>(deviceOf_[static_cast<size_t>(a)])]
                     [static_cast<size_t>(deviceOf_[static_cast<size_t>(b)])];
  };
  for (const int gpu : host.devices) {
    if (!isKind(gpu, NodeKind::Gpu)) continue;
    for (const int net : host.devices) {
      if (!isPort_[static_cast<size_t>(net)] || at(gpu, net).type <= PathClass::Pxn) continue;
      Path best = at(gpu, net);
      for (const int peer : host.devices) {
        if (!isKind(peer, NodeKind::Gpu) || peer == gpu) continue;
        const Path &hop = at(gpu, peer), &rest = at(peer, net);
        if (hop.type != PathClass::Nvl || rest.type > PathClass::Pxb) continue;
        const double gbps = std::min(hop.gbps, rest.gbps);
        if (best.type == PathClass::Pxn && best.gbps >= gbps) continue;
        best = {PathClass::Pxn, gbps, hop.nodes};
        best.nodes.insert(best.nodes.end(), rest.nodes.begin() + 1, rest.nodes.end());
      }
      if (best.type != PathClass::Pxn) continue;
      at(gpu, net) = best;
      std::reverse(best.nodes.begin(), best.nodes.end());
      at(net, gpu) = best;
    }
  }
}

void Paths::spreadNets(const Graph& graph, Host& host) {
  std::vector<int> ports;
  for (const int node : host.devices) {
    if (isPort_[static_cast<size_t>(node)]) ports.push_back(node);
  }
  for (const NodeKind kind : {NodeKind::Gpu, NodeKind::Numa}) {
    std::vector<int> taken(ports.size());
    for (const int device : host.devices) {
      if (graph.nodes[static_cast<size_t>(device)].kind != kind) continue;
      std::vector<size_t> order(ports.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
        const Path &p = inside(host, device, ports[x]), &q = inside(host, device, ports[y]);
        return std::tuple(p.type, -p.gbps, taken[x]) < std::tuple(q.type, -q.gbps, taken[y]);
      });
      if (!order.empty()) ++taken[order[0]];
      for (const size_t i : order) {
        if (inside(host, device, ports[i]).type != PathClass::Dis)
          nets_[static_cast<size_t>(device)].push_back(ports[i]);
      }
    }
  }
}

std::vector<int> Paths::netsOf(int device) const {
  return device >= 0 && static_cast<size_t>(device) < nets_.size() ? nets_[static_cast<size_t>(device)]
                                                                   : std::vector<int>();
}

Result<Path> Paths::between(int a, int b) const {
  for (const int node : {a, b}) {
    const bool known = node >= 0 && static_cast<size_t>(node) < deviceOf_.size();
    if (!known || deviceOf_[static_cast<size_t>(node)] < 0) {
      return invalidArgument(ErrorCode::ArgumentValue, "no path begins at node ", node,
                             ": it is no GPU, net or NUMA node");
    }
  }
  const int hostA = hostOf_[static_cast<size_t>(a)], hostB = hostOf_[static_cast<size_t>(b)];
  return hostA == hostB ? inside(hosts_[static_cast<size_t>(hostA)], a, b) : overNetwork(a, b);
}

Path Paths::overNetwork(int a, int b) const {
  const auto portsFor = [&](int node) {
    return isPort_[static_cast<size_t>(node)] ? std::vector<int>{node} : netsOf(node);
  };
  const std::vector<int> fromA = portsFor(a), toB = portsFor(b);
  if (fromA.empty() || toB.empty()) return {};
  const auto way = [&](int device, int net) -> const Path& {
    return inside(hosts_[static_cast<size_t>(hostOf_[static_cast<size_t>(device)])], device, net);
  };
  const int out = fromA.front();
  int in = toB.front();
  for (const int net : toB) {  // a rail-wise network is widest, or only whole, within a rail
    const int rail = railOf_[static_cast<size_t>(net)];
    if (rail < 0 || rail != railOf_[static_cast<size_t>(out)]) continue;
    in = net;
    break;
  }
  const Path &first = way(a, out), &last = way(b, in);
  Path path{PathClass::Net, std::min(first.gbps, last.gbps), first.nodes};
  path.nodes.insert(path.nodes.end(), last.nodes.rbegin(), last.nodes.rend());
  return path;
}

const char* className(PathClass c) {
  constexpr const char* kNames[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  return kNames[static_cast<size_t>(c)];
}

}  // namespace tutti::topology
