#include "tools/topology/search/host_model.hpp"

#include <algorithm>
#include <map>

namespace tutti::topology {
namespace {

bool isLane(LinkKind kind) { return kind == LinkKind::NvLink || kind == LinkKind::Xgmi; }

/// Turns paths over nodes into arcs.  All NVSwitches of a host are one here: a GPU stripes over all of them.
class ArcMap {
 public:
  explicit ArcMap(const Graph& graph) : g_(graph) {
    for (size_t i = 0; i < g_.links.size(); ++i) {
      const Link& l = g_.links[i];
      const int a = place(l.a), b = place(l.b);
      if (a == b) continue;
      Pair& pair = pairs_[{std::min(a, b), std::max(a, b)}];
      Bundle& bundle = isLane(l.kind) ? pair.lanes : pair.others;
      if (isLane(l.kind) || bundle.links.empty()) bundle.links.push_back(static_cast<int>(i));
      bundle.gbps = isLane(l.kind) ? bundle.gbps + l.gbps : std::max(bundle.gbps, l.gbps);
    }
  }

  Route route(const Path& path, HostModel& model) {
    Route route{path.type, {}};
    for (size_t i = 0; i + 1 < path.nodes.size(); ++i) {
      const int a = place(path.nodes[i]), b = place(path.nodes[i + 1]);
      if (a == b) continue;
      Pair& pair = pairs_[{std::min(a, b), std::max(a, b)}];
      Bundle& bundle = !pair.lanes.links.empty() ? pair.lanes : pair.others;
      if (bundle.arc < 0) {
        bundle.arc = static_cast<int>(model.capacity.size());
        model.capacity.insert(model.capacity.end(), 2, bundle.gbps);
        model.linksOf.push_back(bundle.links);
      }
      route.arcs.push_back(bundle.arc + (a > b));
    }
    return route;
  }

 private:
  struct Bundle {
    std::vector<int> links;
    int arc = -1;
    double gbps = 0;
  };
  struct Pair {
    Bundle lanes, others;
  };

  int place(int node) const {
    return g_.nodes[static_cast<size_t>(node)].kind == NodeKind::NvSwitch ? static_cast<int>(g_.nodes.size()) : node;
  }

  const Graph& g_;
  std::map<std::pair<int, int>, Pair> pairs_;
};

Route back(Route route) {
  std::reverse(route.arcs.begin(), route.arcs.end());
  for (int& arc : route.arcs) arc ^= 1;
  return route;
}

bool sameShape(const Node& a, const Node& b) {
  return a.kind == b.kind && a.parent == b.parent && a.net.rail == b.net.rail && a.gpu.sm == b.gpu.sm &&
         a.gpu.gcn == b.gpu.gcn;
}

}  // namespace

bool HostPart::alike(const HostPart& other) const {
  return devices == other.devices && graph.links == other.graph.links &&
         std::equal(graph.nodes.begin(), graph.nodes.end(), other.graph.nodes.begin(), other.graph.nodes.end(),
                    sameShape);
}

std::vector<HostPart> hostParts(const Graph& graph, const std::vector<int>& devices) {
  std::vector<HostPart> parts;
  std::vector<size_t> partOf(graph.nodes.size());
  std::vector<int> placeOf(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node node = graph.nodes[i];
    const bool isHost = node.parent < 0;
    partOf[i] = isHost ? parts.size() : partOf[static_cast<size_t>(node.parent)];
    if (isHost) parts.emplace_back();
    HostPart& part = parts[partOf[i]];
    placeOf[i] = static_cast<int>(part.nodes.size());
    part.nodes.push_back(static_cast<int>(i));
    if (!isHost) node.parent = placeOf[static_cast<size_t>(node.parent)];
    part.graph.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < graph.links.size(); ++i) {
    Link link = graph.links[i];
    const size_t part = partOf[static_cast<size_t>(link.a)];
    if (part != partOf[static_cast<size_t>(link.b)]) continue;
    link.a = placeOf[static_cast<size_t>(link.a)];
    link.b = placeOf[static_cast<size_t>(link.b)];
    parts[part].graph.links.push_back(link);
    parts[part].links.push_back(static_cast<int>(i));
  }
  for (const int device : devices) {
    parts[partOf[static_cast<size_t>(device)]].devices.push_back(placeOf[static_cast<size_t>(device)]);
  }
  return parts;
}

std::vector<int> portsOf(const Graph& part) {
  std::vector<bool> isPort(part.nodes.size());
  for (size_t i = 0; i < part.nodes.size(); ++i) {
    const Node& node = part.nodes[i];
    if (node.kind == NodeKind::Nic || node.kind == NodeKind::Net) isPort[i] = true;
    if (node.kind == NodeKind::Net && node.parent >= 0) isPort[static_cast<size_t>(node.parent)] = false;
  }
  std::vector<int> ports;
  for (size_t i = 0; i < isPort.size(); ++i) {
    if (isPort[i]) ports.push_back(static_cast<int>(i));
  }
  return ports;
}

HostModel modelOf(const HostPart& part) {
  HostModel model;
  ArcMap arcs(part.graph);
  const Paths paths(part.graph);
  const std::vector<int> ports = portsOf(part.graph);
  const auto routes = [&](int from, const std::vector<int>& to) {
    std::vector<Route> row;
    for (const int node : to) {
      const auto path = paths.between(from, node);
      row.push_back(path.ok() ? arcs.route(*path, model) : Route());
    }
    return row;
  };
  const size_t n = part.devices.size();
  for (const int device : part.devices) {
    model.between.push_back(routes(device, part.devices));
    model.toPort.push_back(routes(device, ports));
    const double most = channelGBpsOf(part.graph.nodes[static_cast<size_t>(device)]);
    model.channelGBps = model.channelGBps > 0 ? std::min(model.channelGBps, most) : most;
  }
  // Back by the way that leads there: of several equally good ones paths may name another for each direction.
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) model.between[i][j] = back(model.between[j][i]);
  }
  for (size_t p = 0; p < ports.size(); ++p) {
    model.fromPort.emplace_back();
    for (size_t i = 0; i < n; ++i) model.fromPort.back().push_back(back(model.toPort[i][p]));
    model.rails.push_back(part.graph.nodes[static_cast<size_t>(ports[p])].net.rail);
  }
  return model;
}

double channelGBpsOf(const Node& device) {
  if (device.kind != NodeKind::Gpu) return 40;
  if (!device.gpu.gcn.empty()) return 48;  // one xGMI link of MI300
  if (device.gpu.sm >= 100) return 90;
  if (device.gpu.sm >= 90) return 60;
  return 40;
}

}  // namespace tutti::topology
