#include <algorithm>
#include <set>

#include "tools/topology/search/channel_plan.hpp"
#include "tools/topology/search/choose.hpp"
#include "tools/topology/search/double_tree.hpp"

namespace tutti::topology {
namespace {

constexpr double kWorthCrossing = 1.05;

Stretch stretchOf(const Machine& machine, size_t host, const Column& column, bool backwards) {
  const HostPart& part = machine.hosts[host];
  const std::vector<int> ports = portsOf(part.graph);
  const auto port = [&](int p) { return p < 0 ? -1 : machine.node(host, ports[static_cast<size_t>(p)]); };
  Stretch stretch{part.nodes.front(), port(column.entry), port(column.exit), {}, -1};
  for (const int d : column.order) {
    stretch.devices.push_back(machine.node(host, part.devices[static_cast<size_t>(d)]));
  }
  if (!backwards) return stretch;
  std::swap(stretch.entry, stretch.exit);
  std::reverse(stretch.devices.begin(), stretch.devices.end());
  return stretch;
}

void addChannels(const Machine& machine, const Chosen& chosen, ChannelSet* set) {
  const size_t n = machine.hosts.size();
  const bool tree = set->pattern == Pattern::Tree;
  const int forms = tree && n > 2 ? 2 : 1;
  for (size_t c = 0; c < chosen.count(); ++c) {
    for (int form = 0; form < forms; ++form) {
      Channel channel;
      for (size_t h = 0; h < n; ++h) {
        const Column& column = chosen.columns[machine.modelOf[h]][c];
        channel.stretches.push_back(stretchOf(machine, h, column, set->crossNic && h % 2 == 1));
        const int which = forms == 2 ? form : static_cast<int>(c % 2);
        if (tree) channel.stretches.back().parent = treeParent(static_cast<int>(h), static_cast<int>(n), which);
      }
      set->channels.push_back(std::move(channel));
    }
  }
  set->gbps = chosen.gbps / forms;
}

void noteClasses(const HostModel& model, const Column& column, ChannelSet* set) {
  const auto at = [](int i) { return static_cast<size_t>(i); };
  for (size_t i = 0; i + 1 < column.order.size(); ++i) {
    set->intra = std::max(set->intra, model.between[at(column.order[i])][at(column.order[i + 1])].type);
  }
  const size_t front = at(column.order.front()), back = at(column.order.back());
  if (column.entry < 0) {
    if (set->pattern == Pattern::Ring) set->intra = std::max(set->intra, model.between[back][front].type);
    return;
  }
  set->inter = std::max(set->inter, model.fromPort[at(column.entry)][front].type);
  const size_t end = set->pattern == Pattern::Tree ? front : back;
  set->inter = std::max(set->inter, model.toPort[end][at(column.exit)].type);
}

/// The full links of the host that bounds the others, several alike as one.
std::vector<Limit> limitsOf(const Graph& graph, const Machine& machine, size_t m, const Packing& packing) {
  const HostModel& model = machine.models[m];
  std::vector<Limit> limits;
  std::set<int> seen;
  for (const int arc : packing.full) {
    const int local = model.linksOf[static_cast<size_t>(arc) / 2].front();
    if (!seen.insert(local).second) continue;
    const int link = machine.hosts[machine.firstOf[m]].links[static_cast<size_t>(local)];
    const double gbps = model.capacity[static_cast<size_t>(arc)];
    const auto alike = std::find_if(limits.begin(), limits.end(), [&](const Limit& l) {
      return graph.links[static_cast<size_t>(l.link)].kind == graph.links[static_cast<size_t>(link)].kind &&
             l.gbps == gbps;
    });
    if (alike == limits.end())
      limits.push_back({link, 1, gbps});
    else
      ++alike->count;
  }
  return limits;
}

Status whyNone(const Graph& graph, const Machine& machine, size_t m, int nHosts) {
  const HostPart& part = machine.hosts[machine.firstOf[m]];
  const HostModel& model = machine.models[m];
  const auto none = [](const std::vector<Route>& row, size_t self) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i != self && row[i].type != PathClass::Dis) return false;
    }
    return true;
  };
  for (size_t d = 0; d < model.nDevices() && model.nDevices() > 1; ++d) {
    if (!none(model.between[d], d)) continue;
    return invalidArgument("no link leads from ", describe(graph, machine.node(machine.firstOf[m], part.devices[d])),
                           " to the other devices of its host");
  }
  const std::string host = describe(graph, part.nodes.front());
  if (nHosts > 1 && model.nPorts() == 0) return invalidArgument(host, " has no network port to reach other hosts by");
  return invalidArgument("no way was found that passes all ", model.nDevices(), " devices of ", host, " once");
}

Result<ChannelSet> searchSet(const Graph& graph, const Machine& machine, const ChannelQuestion& q, Pattern pattern) {
  ChannelSet set;
  set.pattern = pattern;
  const int nHosts = static_cast<int>(machine.hosts.size());
  const auto searchAll = [&](bool crossNic) {
    std::vector<Searched> all;
    for (const HostModel& model : machine.models) {
      all.push_back(searchHost(model, {pattern, nHosts, crossNic, PathClass::Dis, PathClass::Dis}));
    }
    return all;
  };
  const auto narrowest = [](const std::vector<Searched>& all) {
    size_t m = 0;
    for (size_t i = 1; i < all.size(); ++i) m = all[i].packing.total < all[m].packing.total ? i : m;
    return m;
  };
  const bool mayCross = nHosts > 1 && pattern == Pattern::Ring && q.crossNic != CrossNic::Never;
  std::vector<Searched> searched = searchAll(mayCross && q.crossNic == CrossNic::Always);
  set.crossNic = mayCross && q.crossNic == CrossNic::Always;
  size_t m = narrowest(searched);
  const bool portsLeft = searched[m].packing.total * kWorthCrossing < portsGBps(machine.models[m]);
  if (mayCross && !set.crossNic && portsLeft) {
    std::vector<Searched> crossing = searchAll(true);
    const size_t c = narrowest(crossing);
    if (crossing[c].packing.total > searched[m].packing.total * kWorthCrossing) {
      searched = std::move(crossing);
      set.crossNic = true;
      m = c;
    }
  }
  if (!(searched[m].packing.total > 0)) return whyNone(graph, machine, m, nHosts);
  const bool halves = pattern == Pattern::Tree && nHosts > 2;  // every chain becomes a channel in each of two trees
  double highest = kNoWay;
  for (const HostModel& model : machine.models) highest = std::min(highest, model.channelGBps * (halves ? 2 : 1));
  Chosen chosen = chooseChannels(machine, searched, highest,
                                 static_cast<size_t>(halves ? std::max(1, q.mostChannels / 2) : q.mostChannels));
  if (chosen.count() == 0) return whyNone(graph, machine, m, nHosts);
  for (size_t i = 0; i < chosen.columns.size(); ++i) {
    for (const Column& column : chosen.columns[i]) noteClasses(machine.models[i], column, &set);
  }
  addChannels(machine, chosen, &set);
  set.boundGBps = searched[m].packing.bound;
  set.limits = limitsOf(graph, machine, m, searched[m].packing);
  return set;
}

/// Nothing is moved: one channel that holds the device alone.
ChannelSet alone(const Machine& machine, Pattern pattern) {
  ChannelSet set;
  set.pattern = pattern;
  set.channels.push_back({{stretchOf(machine, 0, {-1, -1, {0}, {}}, false)}});
  return set;
}

}  // namespace

const char* patternName(Pattern pattern) { return pattern == Pattern::Ring ? "ring" : "tree"; }

Result<std::vector<int>> devicesOf(const Graph& graph, const ChannelQuestion& q) {
  if (q.devices.empty()) {
    std::vector<int> all = graph.all(NodeKind::Gpu);
    if (all.empty()) all = graph.all(NodeKind::Numa);
    if (all.empty()) return invalidArgument("the machine has neither GPUs nor NUMA nodes to lead rings through");
    return all;
  }
  std::set<int> seen;
  for (const int device : q.devices) {
    const bool exists = device >= 0 && static_cast<size_t>(device) < graph.nodes.size();
    const NodeKind kind = exists ? graph.nodes[static_cast<size_t>(device)].kind : NodeKind::Host;
    if (kind != NodeKind::Gpu && kind != NodeKind::Numa) {
      return invalidArgument("rings lead through GPUs or NUMA nodes; ",
                             exists ? describe(graph, device) : cat("node ", device), " is neither");
    }
    if (!seen.insert(device).second) return invalidArgument(describe(graph, device), " is given twice");
  }
  return q.devices;
}

Result<ChannelPlan> planChannels(const Graph& graph, const ChannelQuestion& q) {
  if (q.mostChannels < 1) return invalidArgument("at most ", q.mostChannels, " channels: none can be planned");
  TUTTI_ASSIGN(const std::vector<int> devices, devicesOf(graph, q));
  const Machine machine = machineOf(graph, devices);
  if (devices.size() == 1) return ChannelPlan{alone(machine, Pattern::Ring), alone(machine, Pattern::Tree)};
  ChannelPlan plan;
  TUTTI_ASSIGN(plan.rings, searchSet(graph, machine, q, Pattern::Ring));
  TUTTI_ASSIGN(plan.trees, searchSet(graph, machine, q, Pattern::Tree));
  return plan;
}

}  // namespace tutti::topology
