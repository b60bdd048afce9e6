#include "tools/info/rings_view.hpp"

#include "src/topology/merge.hpp"
#include "tools/topology/search/dev_numbers.hpp"
#include "tools/topology/search/graph_xml.hpp"

namespace tutti {
namespace {

using topology::Graph;
using topology::NodeKind;

constexpr int kMostHosts = 4096;

}  // namespace

Result<Graph> repeated(const Graph& machine, int hosts) {
  if (hosts < 1 || hosts > kMostHosts) return invalidUsage("--hosts ", hosts, ": give a number from 1 to ", kMostHosts);
  std::vector<Graph> copies(static_cast<size_t>(hosts), machine);
  for (int h = 0; h < hosts; ++h) {
    topology::Node& host = copies[static_cast<size_t>(h)].nodes.front();
    host.hostHash = static_cast<uint64_t>(h) + 1;
    host.name = cat("host ", h);
  }
  return topology::merge(copies);
}

Result<RingsAnswer> ringsOf(const Graph& machine, const RingsQuestion& question) {
  RingsAnswer answer{machine, {}};
  const size_t nHosts = machine.all(NodeKind::Host).size();
  const int hosts = question.hosts.value_or(static_cast<int>(nHosts));
  if (question.hosts && (hosts < 1 || hosts > kMostHosts)) {
    return invalidUsage("--hosts ", hosts, ": give a number from 1 to ", kMostHosts);
  }
  if (static_cast<size_t>(hosts) != nHosts) {
    if (nHosts != 1) return invalidUsage("--hosts ", hosts, ": the description itself has ", nHosts, " hosts");
    TUTTI_ASSIGN(answer.graph, repeated(machine, hosts));
  }
  topology::ChannelQuestion asked;
  for (const int host : answer.graph.all(NodeKind::Host)) {
    const topology::DevNumbers numbers(answer.graph, host);
    for (const int gpu : question.gpus) {
      const int node = numbers.gpu(gpu);
      if (node < 0) return invalidUsage("--gpus: ", topology::describe(answer.graph, host), " has no GPU ", gpu);
      asked.devices.push_back(node);
    }
  }
  TUTTI_ASSIGN(answer.plan, topology::currentChannels(answer.graph, asked));
  return answer;
}

}  // namespace tutti
