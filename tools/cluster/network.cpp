#include "tools/cluster/network.hpp"

#include <algorithm>

#include "src/topology/paths.hpp"

namespace tutti::sim {
namespace {

using topology::NodeKind;

std::vector<int> placesOf(const topology::Graph& graph) {
  const std::vector<int> gpus = graph.all(NodeKind::Gpu);
  return gpus.empty() ? graph.all(NodeKind::Numa) : gpus;
}

}  // namespace

Network::Network(const Cluster& cluster) : cluster_(cluster) {
  part_ = topology::hostParts(cluster_.machine, placesOf(cluster_.machine)).front();
  model_ = topology::modelOf(part_);
  nDevices_ = static_cast<int>(part_.devices.size());
  const std::vector<int> ports = topology::portsOf(part_.graph);
  const topology::Paths paths(part_.graph);
  for (size_t p = 0; p < ports.size(); ++p) {
    portNames_.push_back(topology::describe(part_.graph, ports[p]));
    const topology::Node& port = part_.graph.nodes[static_cast<size_t>(ports[p])];
    double gbps = port.net.speedMbps / 8e3;
    for (const topology::Route& route : model_.fromPort[p]) {
      if (!route.arcs.empty() && gbps <= 0) gbps = model_.capacity[static_cast<size_t>(route.arcs.front())];
    }
    portGBps_.push_back(gbps);
    portUs_.push_back(port.net.latencyUs);
  }
  for (const int device : part_.devices) {
    std::vector<int> list;
    for (const int node : paths.netsOf(device)) {
      const auto found = std::find(ports.begin(), ports.end(), node);
      if (found != ports.end()) list.push_back(static_cast<int>(found - ports.begin()));
    }
    portsOf_.push_back(std::move(list));
  }
  const double gbps = portGBps_.empty() ? 0 : *std::max_element(portGBps_.begin(), portGBps_.end());
  fabric_ = makeFabric(cluster_.fabric, cluster_.nodes, nPorts(), gbps);
}

Result<Network> Network::make(const Cluster& cluster, const Faults& faults) {
  Network network(cluster);
  for (const auto& [node, port] : faults.ports) {
    if (node < 0 || node >= cluster.nodes || port < 0 || port >= network.nPorts()) {
      return invalidArgument("no port ", port, " on node ", node, ": there are ", cluster.nodes, " nodes of ",
                             network.nPorts(), " ports");
    }
  }
  for (const int link : faults.links) {
    if (link < 0 || link >= network.nLinks()) {
      return invalidArgument("no link ", link, ": there are ", network.nLinks());
    }
  }
  network.faults_ = faults;
  TUTTI_TRY(network.checkPlaces());
  return network;
}

Status Network::checkPlaces() const {
  for (int a = 0; a < nDevices_; ++a) {
    for (int b = 0; b < nDevices_; ++b) {
      const auto& route = model_.between[static_cast<size_t>(a)][static_cast<size_t>(b)];
      if (a != b && route.type >= topology::PathClass::Net) {
        return invalidArgument("the machine has no way between its places ", a, " and ", b);
      }
    }
  }
  if (cluster_.nodes == 1) return {};
  for (int node = 0; node < cluster_.nodes; ++node) {
    if (node > 0 && faults_.ports.empty()) break;  // all alike
    for (int local = 0; local < cluster_.ranksPerNode; ++local) {
      if (portOf({node, local}) < 0) {
        return invalidArgument("rank ", local, " of node ", node, " has no port to reach the ", cluster_.nodes - 1,
                               " other nodes by; describe the machine with nic:NxB");
      }
    }
  }
  return {};
}

int Network::portOf(Place place) const {
  for (const int port : portsOf_[static_cast<size_t>(deviceOf(place.local))]) {
    if (std::find(faults_.ports.begin(), faults_.ports.end(), std::pair(place.node, port)) == faults_.ports.end()) {
      return port;
    }
  }
  return -1;
}

double Network::portUs(int port) const {
  return static_cast<size_t>(port) < portUs_.size() ? portUs_[static_cast<size_t>(port)] : 0;
}

int Network::cables(int link) const {
  const int inNodes = linksPerNode() * cluster_.nodes;
  if (link >= inNodes) return fabric_->links()[static_cast<size_t>(link - inNodes)].cables;
  int count = 0;
  for (const int l : model_.linksOf[static_cast<size_t>(link % linksPerNode() / 2)]) {
    count += part_.graph.links[static_cast<size_t>(l)].count;
  }
  return count;
}

double Network::capacity(int link) const {
  const int inNodes = linksPerNode() * cluster_.nodes;
  double gbps = link >= inNodes ? fabric_->links()[static_cast<size_t>(link - inNodes)].gbps
                                : model_.capacity[static_cast<size_t>(link % linksPerNode())];
  for (const int lost : faults_.links) {
    const bool same =
        lost == link || (!inFabric(link) && !inFabric(lost) && lost / linksPerNode() == link / linksPerNode() &&
                         (lost % linksPerNode() ^ 1) == link % linksPerNode());
    if (same) gbps *= double(cables(link) - 1) / cables(link);
  }
  return gbps;
}

std::vector<double> Network::capacities() const {
  std::vector<double> all(static_cast<size_t>(nLinks()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = capacity(static_cast<int>(i));
  return all;
}

std::string Network::arcName(int arc) const {
  const topology::Link& link =
      part_.graph.links[static_cast<size_t>(model_.linksOf[static_cast<size_t>(arc / 2)].front())];
  // The host model takes the even arc from the lower place to the higher; all NVSwitches are one, behind all others.
  const auto isSwitch = [&](int node) {
    return part_.graph.nodes[static_cast<size_t>(node)].kind == NodeKind::NvSwitch;
  };
  int low = std::min(link.a, link.b), high = std::max(link.a, link.b);
  if (isSwitch(low)) std::swap(low, high);
  const auto named = [&](int node) { return isSwitch(node) ? "NVSwitch" : topology::describe(part_.graph, node); };
  return (arc & 1) == 0 ? cat(named(low), " -> ", named(high)) : cat(named(high), " -> ", named(low));
}

std::string Network::name(int link) const {
  if (inFabric(link)) return fabric_->links()[static_cast<size_t>(link - linksPerNode() * cluster_.nodes)].name;
  return cat("node ", link / linksPerNode(), " ", arcName(link % linksPerNode()));
}

Status Network::checkWhole(const std::vector<int>& links) const {
  if (faults_.links.empty()) return {};
  for (const int link : links) {
    if (capacity(link) <= 0) return invalidArgument("the way leads over ", name(link), ", which is lost altogether");
  }
  return {};
}

int Network::holderOf(int node, int port) const {
  for (int local = 0; local < cluster_.ranksPerNode; ++local) {
    if (portOf({node, local}) == port) return deviceOf(local);
  }
  return -1;
}

/// Out by the own port and in by the peer's.  Where the fabric does not join the two: inside the node to whoever has
/// the peer's rail, as PXN does; where nobody has it any more, inside the peer's node from whoever has ours.
Status Network::appendFar(Place from, Place to, Route* route) const {
  const int a = deviceOf(from.local), b = deviceOf(to.local);
  int out = a, in = b, port = portOf(from), toPort = portOf(to);
  if (!fabric_->joins(port, toPort)) {
    if (const int holder = holderOf(from.node, toPort); holder >= 0) {
      out = holder;
      port = toPort;
    } else if (const int theirs = holderOf(to.node, port); theirs >= 0) {
      in = theirs;
      toPort = port;
    } else {
      return invalidArgument("rail ", toPort, " of node ", to.node, " cannot be reached from node ", from.node);
    }
  }
  const auto append = [&](int node, const std::vector<int>& arcs) {
    for (const int arc : arcs) route->links.push_back(node * linksPerNode() + arc);
  };
  route->far = true;
  if (out != a) append(from.node, model_.between[static_cast<size_t>(a)][static_cast<size_t>(out)].arcs);
  append(from.node, model_.toPort[static_cast<size_t>(out)][static_cast<size_t>(port)].arcs);
  const size_t first = route->links.size();
  route->switchesUs =
      fabric_->route(from.node, port, to.node, toPort, &route->links) * cluster_.fabric.hopUs + portUs(port);
  for (size_t i = first; i < route->links.size(); ++i) route->links[i] += linksPerNode() * cluster_.nodes;
  append(to.node, model_.fromPort[static_cast<size_t>(toPort)][static_cast<size_t>(in)].arcs);
  if (in != b) append(to.node, model_.between[static_cast<size_t>(in)][static_cast<size_t>(b)].arcs);
  return {};
}

Result<Route> Network::route(Place from, Place to) const {
  const int a = deviceOf(from.local), b = deviceOf(to.local);
  Route route;
  const auto append = [&](int node, const std::vector<int>& arcs) {
    for (const int arc : arcs) route.links.push_back(node * linksPerNode() + arc);
  };
  if (from.node == to.node) {
    append(from.node, model_.between[static_cast<size_t>(a)][static_cast<size_t>(b)].arcs);
  } else {
    TUTTI_TRY(appendFar(from, to, &route));
  }
  TUTTI_TRY(checkWhole(route.links));
  route.mostGBps = route.links.empty() ? cluster_.copyGBps : 1e18;
  for (const int link : route.links) route.mostGBps = std::min(route.mostGBps, capacity(link));
  return route;
}

double Network::switchesUs(Place from, Place to) const {
  if (from.node == to.node) return 0;
  std::vector<int> links;
  const int port = std::max(0, portOf(from));
  return fabric_->route(from.node, port, to.node, std::max(0, portOf(to)), &links) * cluster_.fabric.hopUs +
         portUs(port);
}

}  // namespace tutti::sim
