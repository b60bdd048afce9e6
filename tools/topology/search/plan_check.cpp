#include <algorithm>
#include <set>

#include "tools/topology/search/channel_plan.hpp"
#include "tools/topology/search/machine.hpp"

namespace tutti::topology {
namespace {

/// The root is reached from everywhere.
bool isTree(const Channel& channel) {
  const size_t n = channel.stretches.size();
  size_t roots = 0;
  for (size_t h = 0; h < n; ++h) {
    int at = static_cast<int>(h);
    for (size_t steps = 0; at >= 0 && steps <= n; ++steps) {
      const int parent = channel.stretches[static_cast<size_t>(at)].parent;
      if (parent >= static_cast<int>(n)) return false;
      at = parent;
    }
    if (at >= 0) return false;
    roots += channel.stretches[h].parent < 0;
  }
  return roots == 1;
}

std::string checkStretch(const Graph& graph, const Stretch& s, bool alone, std::set<int>* visited) {
  if (s.devices.empty()) return cat(describe(graph, s.host), " has no device in it");
  for (const int device : s.devices) {
    if (device < 0 || static_cast<size_t>(device) >= graph.nodes.size()) return cat("there is no node ", device);
    if (graph.hostOf(device) != s.host) return cat(describe(graph, device), " is of another host");
    if (!visited->insert(device).second) return cat(describe(graph, device), " is passed twice");
  }
  for (const int port : {s.entry, s.exit}) {
    if (alone) {
      if (port >= 0) return cat(describe(graph, port), " leads out of the only host");
      continue;
    }
    if (port < 0 || static_cast<size_t>(port) >= graph.nodes.size()) {
      return cat(describe(graph, s.host), " is not joined to the other hosts");
    }
    const NodeKind kind = graph.nodes[static_cast<size_t>(port)].kind;
    if ((kind != NodeKind::Net && kind != NodeKind::Nic) || graph.hostOf(port) != s.host) {
      return cat(describe(graph, port), " is no port of ", describe(graph, s.host));
    }
  }
  return {};
}

/// Adds up what a host's stretches put on its arcs.
class Loads {
 public:
  Loads(const HostPart& part, const HostModel& model, double gbps)
      : part_(part), model_(model), ports_(portsOf(part.graph)), gbps_(gbps), loads_(model.capacity.size()) {}

  /// `below` hosts hang on this one in a tree.
  void add(const Stretch& s, Pattern pattern, int below) {
    const std::vector<size_t> order = places(s.devices, part_.devices);
    const bool tree = pattern == Pattern::Tree;
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      take(model_.between[order[i]][order[i + 1]], 1);
      if (tree) take(model_.between[order[i + 1]][order[i]], 1);
    }
    if (s.entry >= 0) {
      const size_t in = places({s.entry}, ports_).front(), out = places({s.exit}, ports_).front();
      const int times = tree ? below + (s.parent >= 0) : 1;
      take(model_.fromPort[in][order.front()], times);
      take(model_.toPort[tree ? order.front() : order.back()][out], times);
    } else if (!tree && order.size() > 1) {
      take(model_.between[order.back()][order.front()], 1);
    }
  }

  void into(const Graph& graph, std::vector<double>* links) const {
    for (size_t arc = 0; arc < loads_.size(); ++arc) {
      for (const int local : model_.linksOf[arc / 2]) {  // GPUs stripe over all NVSwitches
        const size_t link = static_cast<size_t>(part_.links[static_cast<size_t>(local)]);
        const double share = loads_[arc] * std::min(1.0, graph.links[link].gbps / model_.capacity[arc]);
        (*links)[link] = std::max((*links)[link], share);
      }
    }
  }

 private:
  void take(const Route& route, int times) {
    for (const int arc : route.arcs) loads_[static_cast<size_t>(arc)] += times * gbps_;
  }
  std::vector<size_t> places(const std::vector<int>& nodes, const std::vector<int>& list) const {
    std::vector<size_t> places;
    for (const int node : nodes) {
      const auto same = [&](int local) { return part_.nodes[static_cast<size_t>(local)] == node; };
      places.push_back(static_cast<size_t>(std::find_if(list.begin(), list.end(), same) - list.begin()));
    }
    return places;
  }

  const HostPart& part_;
  const HostModel& model_;
  std::vector<int> ports_;
  double gbps_;
  std::vector<double> loads_;
};

}  // namespace

std::string check(const Graph& graph, const std::vector<int>& devices, const ChannelSet& set) {
  const std::set<int> wanted(devices.begin(), devices.end());
  if (set.channels.empty()) return "there is no channel";
  for (size_t c = 0; c < set.channels.size(); ++c) {
    const Channel& channel = set.channels[c];
    const std::string where = cat(patternName(set.pattern), " ", c, ": ");
    std::set<int> visited;
    for (const Stretch& s : channel.stretches) {
      const std::string complaint = checkStretch(graph, s, channel.stretches.size() == 1, &visited);
      if (!complaint.empty()) return where + complaint;
    }
    for (const int device : devices) {
      if (!visited.contains(device)) return cat(where, describe(graph, device), " is left out");
    }
    for (const int device : visited) {
      if (!wanted.contains(device)) return cat(where, describe(graph, device), " is not one of the devices asked for");
    }
    if (set.pattern == Pattern::Tree && !isTree(channel)) return where + "the hosts are not one tree";
  }
  return {};
}

Result<std::vector<double>> linkLoads(const Graph& graph, const ChannelSet& set) {
  std::vector<int> devices;
  if (!set.channels.empty()) {
    for (const Stretch& s : set.channels.front().stretches) {
      devices.insert(devices.end(), s.devices.begin(), s.devices.end());
    }
  }
  std::sort(devices.begin(), devices.end());
  if (const std::string complaint = check(graph, devices, set); !complaint.empty()) return invalidArgument(complaint);
  const Machine machine = machineOf(graph, devices);
  std::vector<double> links(graph.links.size());
  for (size_t h = 0; h < machine.hosts.size(); ++h) {
    Loads loads(machine.hosts[h], machine.model(h), set.gbps);
    for (const Channel& channel : set.channels) {
      for (size_t i = 0; i < channel.stretches.size(); ++i) {
        if (channel.stretches[i].host != machine.hosts[h].nodes.front()) continue;
        const auto hangs = [&](const Stretch& s) { return s.parent == static_cast<int>(i); };
        loads.add(channel.stretches[i], set.pattern,
                  static_cast<int>(std::count_if(channel.stretches.begin(), channel.stretches.end(), hangs)));
      }
    }
    loads.into(graph, &links);
  }
  return links;
}

}  // namespace tutti::topology
