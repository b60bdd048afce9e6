#include "tools/nccl_model/machine.hpp"

#include <algorithm>
#include <set>

namespace tutti::nccl_model {
namespace {

using topology::Graph;
using topology::LinkKind;
using topology::NodeKind;

/// GB/s out of a GPU over links of a kind.
double linksOf(const Graph& graph, int gpu, LinkKind kind) {
  double gbps = 0;
  for (const topology::Link& link : graph.links) {
    if (link.kind == kind && (link.a == gpu || link.b == gpu)) gbps += link.gbps;
  }
  return gbps;
}

Status addGpus(const Graph& graph, Machine* m) {
  const std::vector<int> gpus = graph.all(NodeKind::Gpu);
  if (gpus.empty()) return invalidArgument("--as nccl: the machine has no GPUs for NCCL to run on");
  m->portGBps = 1e300;
  for (const int gpu : gpus) {
    const GpuPart* part = partOf(graph.nodes[static_cast<size_t>(gpu)].gpu);
    if (part == nullptr) return invalidArgument("--as nccl: GPUs of AMD run RCCL, which is not modelled");
    if (m->gpu == nullptr || part->sm < m->gpu->sm) m->gpu = part;
    double out = linksOf(graph, gpu, LinkKind::NvLink);
    if (out <= 0) {
      m->inside = Hop::Pci;
      out = linksOf(graph, gpu, LinkKind::Pci);
    }
    m->portGBps = std::min(m->portGBps, out);
  }
  m->nvSwitch = !graph.all(NodeKind::NvSwitch).empty();
  return {};
}

/// What the fabric lets through of what the adapters could send.
Result<double> fabricShare(const sim::Cluster& c) {
  switch (c.fabric.kind) {
    case sim::FabricKind::Switch: return 1.0;
    case sim::FabricKind::FatTree:
    case sim::FabricKind::Rail:
      return c.nodes > c.fabric.leafNodes ? 1 / std::max(1.0, c.fabric.oversubscription) : 1.0;
    case sim::FabricKind::Torus:
    case sim::FabricKind::Dragonfly: break;
  }
  return invalidArgument("--as nccl: fabric ", sim::fabricName(c.fabric.kind),
                         " is not modelled; switch, fat-tree and rail are");
}

/// Adapters that are some rank's nearest: others are not used.
int netsInUse(const sim::Network& network) {
  std::set<int> ports;
  for (int local = 0; local < network.cluster().ranksPerNode; ++local) ports.insert(network.portOf({0, local}));
  return static_cast<int>(ports.size());
}

Status addNets(const sim::Network& network, Machine* m) {
  const sim::Cluster& c = network.cluster();
  const std::vector<int> nics = c.machine.all(NodeKind::Nic);
  // A plugin tells NCCL how to go inside a node, too.
  if (!nics.empty()) m->net = &netPartOf(c.machine.nodes[static_cast<size_t>(nics.front())].pci);
  if (c.nodes == 1) return {};
  const std::vector<int> nets = c.machine.all(NodeKind::Net);
  double all = 0;
  for (const int net : nets) all += c.machine.nodes[static_cast<size_t>(net)].net.speedMbps / 8e3;
  m->nets = netsInUse(network);
  TUTTI_ASSIGN(const double share, fabricShare(c));
  m->netGBps = all * m->nets / static_cast<double>(std::max<size_t>(1, nets.size())) * share;
  // NCCL's hop between nodes has one switch in it.
  m->netUs = std::max(0.0, network.switchesUs({0, 0}, {c.nodes - 1, 0}) - c.fabric.hopUs);
  if (m->netGBps <= 0) return invalidArgument("--as nccl: no adapter of the machine tells its rate");
  return {};
}

}  // namespace

Result<Machine> machineOf(const sim::Network& network) {
  const sim::Cluster& c = network.cluster();
  Machine m;
  m.nodes = c.nodes;
  m.perNode = c.ranksPerNode;
  if (m.ranks() < 2) return invalidArgument("--as nccl: a single rank has nothing to send");
  TUTTI_TRY(addGpus(c.machine, &m));
  if (static_cast<size_t>(c.ranksPerNode) > c.machine.all(NodeKind::Gpu).size()) {
    return invalidArgument("--as nccl: ", c.ranksPerNode, " ranks on the ", c.machine.all(NodeKind::Gpu).size(),
                           " GPUs of a node; NCCL takes one rank a GPU");
  }
  for (const int numa : c.machine.all(NodeKind::Numa)) {
    m.amdCpu |= c.machine.nodes[static_cast<size_t>(numa)].cpu.vendor == "AuthenticAMD";
  }
  TUTTI_TRY(addNets(network, &m));
  return m;
}

}  // namespace tutti::nccl_model
