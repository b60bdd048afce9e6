#include "tools/info/described_job.hpp"

#include <algorithm>

#include "src/topology/load.hpp"
#include "tools/info/rings_view.hpp"

namespace tutti {
namespace {

using topology::Graph;
using topology::NodeKind;

Result<Graph> hostsOf(const PlanQuestion& q) {
  TUTTI_ASSIGN(Graph graph, topology::loadTopology(q.topology));
  const int given = static_cast<int>(graph.all(NodeKind::Host).size());
  if (given == 1) return repeated(graph, q.hosts);
  if (q.hosts != 1 && q.hosts != given) return invalidUsage("--hosts ", q.hosts, ": ", q.topology, " has ", given);
  uint64_t number = 0;
  for (const int host : graph.all(NodeKind::Host)) graph.nodes[static_cast<size_t>(host)].hostHash = ++number;
  return graph;
}

/// Where the ranks of a host are: its GPUs, or its NUMA nodes.
std::vector<int> placesOf(const Graph& graph, int host) {
  const std::vector<int> gpus = graph.all(NodeKind::Gpu, host);
  return gpus.empty() ? graph.all(NodeKind::Numa, host) : gpus;
}

int coresOf(const Graph& graph, int host) {
  int cores = 0;
  for (const int numa : graph.all(NodeKind::Numa, host)) cores += graph.nodes[static_cast<size_t>(numa)].cpus.count();
  return cores;
}

topology::RankPlace placeOf(const Graph& graph, int host, int place, int64_t process) {
  const topology::Node& at = graph.nodes[static_cast<size_t>(place)];
  const bool gpu = at.kind == NodeKind::Gpu;
  return {graph.nodes[static_cast<size_t>(host)].hostHash, process, gpu ? topology::CpuSet() : at.cpus,
          gpu ? at.busId : ""};
}

}  // namespace

Result<DescribedJob> describeJob(const PlanQuestion& q) {
  DescribedJob job;
  TUTTI_ASSIGN(job.graph, hostsOf(q));
  const std::vector<int> hosts = job.graph.all(NodeKind::Host);
  job.nHosts = static_cast<int>(hosts.size());
  if (q.ranks != 0 && q.ranks < job.nHosts) return invalidUsage("--ranks ", q.ranks, " on ", job.nHosts, " hosts");
  std::vector<topology::RankPlace> ranks;
  for (int h = 0; h < job.nHosts; ++h) {
    const int host = hosts[static_cast<size_t>(h)];
    const std::vector<int> places = placesOf(job.graph, host);
    if (places.empty()) return invalidUsage(q.topology, " has neither GPUs nor NUMA nodes that ranks could be at");
    const auto until = [&](int end) { return static_cast<int>(int64_t{end} * q.ranks / job.nHosts); };
    const int here = q.ranks == 0 ? static_cast<int>(places.size()) : until(h + 1) - until(h);
    for (int i = 0; i < here; ++i) {
      const int place = places[static_cast<size_t>(i) % places.size()];
      ranks.push_back(placeOf(job.graph, host, place, q.threads ? 0 : i));
      const topology::Node& at = job.graph.nodes[static_cast<size_t>(place)];
      if (at.kind != NodeKind::Gpu) continue;
      job.computeCapability = job.busIds.empty() ? at.gpu.sm : std::min(job.computeCapability, at.gpu.sm);
      job.busIds.push_back(at.busId);
    }
    const int cores = coresOf(job.graph, host);
    job.cores = h == 0 ? cores : std::min(job.cores, cores);
    job.ranksPerHost = std::max(job.ranksPerHost, here);
  }
  job.nRanks = static_cast<int>(ranks.size());
  TUTTI_ASSIGN(job.groups, topology::levelGroups(job.graph, ranks));
  return job;
}

}  // namespace tutti
