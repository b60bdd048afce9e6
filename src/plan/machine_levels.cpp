#include "src/plan/machine_levels.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace tutti {
namespace {

using topology::Graph;
using topology::Level;
using topology::NodeKind;

int count(const std::vector<int>& groups) {
  return groups.empty() ? 0 : *std::max_element(groups.begin(), groups.end()) + 1;
}

/// GB/s of all ports of the host that has least; 0: not known of all.
double hostGBps(const Graph& graph) {
  std::map<int, double> ports;
  for (const int host : graph.all(NodeKind::Host)) ports[host] = 0;
  for (const int net : graph.all(NodeKind::Net)) {
    ports[graph.hostOf(net)] += graph.nodes[static_cast<size_t>(net)].net.speedMbps / 8e3;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [host, gbps] : ports) least = std::min(least, gbps);
  return ports.empty() ? 0 : least;
}

}  // namespace

int socketOf(const Graph& graph, int node) {
  int found = -1;
  for (; node >= 0; node = graph.nodes[static_cast<size_t>(node)].parent) {
    const NodeKind kind = graph.nodes[static_cast<size_t>(node)].kind;
    if (kind == NodeKind::Package) return node;
    if (kind == NodeKind::Numa) found = node;
  }
  return found;
}

double socketGBps(const Graph& graph) {
  std::map<int, double> out;
  for (const topology::Link& link : graph.links) {
    const int a = socketOf(graph, link.a), b = socketOf(graph, link.b);
    if (a < 0 || b < 0 || a == b || graph.hostOf(a) != graph.hostOf(b) || link.assumed) continue;
    out[a] += link.gbps;
    out[b] += link.gbps;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [socket, gbps] : out) least = std::min(least, gbps);
  return out.empty() ? 0 : least;
}

MachineLevels machineLevels(const Graph& graph, const topology::LevelGroups& groups, const LinkUse& links) {
  MachineLevels levels;
  const std::pair<Level, const char*> kAll[] = {{Level::Process, "process"}, {Level::L3, "L3"},
                                                {Level::Numa, "NUMA node"},  {Level::Socket, "socket"},
                                                {Level::Host, "host"},       {Level::Cluster, "cluster"}};
  int finer = static_cast<int>(groups[static_cast<size_t>(Level::Cluster)].size());
  for (const auto& [level, name] : kAll) {
    const std::vector<int>& of = groups[static_cast<size_t>(level)];
    const bool joins = count(of) < finer || (level == Level::Cluster && levels.empty());
    if (!joins) continue;
    finer = count(of);
    MachineLevel added{name, of, links.intra, 0};
    if (level == Level::Process && links.process) added.link = links.process;
    if (level == Level::Host) added.portGBps = socketGBps(graph);
    if (level == Level::Cluster && links.inter) {
      added.link = links.inter;
      added.portGBps = hostGBps(graph);
    }
    levels.push_back(std::move(added));
  }
  return levels;
}

std::string describe(const MachineLevels& levels) {
  std::string text;
  for (const MachineLevel& level : levels) {
    if (level.name == "cluster") continue;
    const int n = count(level.groupOf);
    text += cat(text.empty() ? "" : ", ", n, " ", level.name, n == 1 ? "" : level.name == "process" ? "es" : "s");
  }
  return text;
}

}  // namespace tutti
