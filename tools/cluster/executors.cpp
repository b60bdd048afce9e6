#include "tools/cluster/executors.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "src/cost/device_costs.hpp"
#include "tools/cluster/machine_defaults.hpp"

namespace tutti::sim {
namespace {

using topology::Graph;
using topology::LinkKind;
using topology::NodeKind;

constexpr std::array kNames = {"auto", "resident", "stream", "proxy"};
/// Of a connection, as communicators have them.
constexpr uint32_t kSlots = 4;
/// Microseconds on the wire and in adapters, of what NCCL plans with for a hop (3 to 5 of 14:
/// src/cost/device_costs.cpp).
constexpr double kNetworkUs = 4;

Result<DeviceCosts> costsOf(DeviceExecutor way, const Cluster& c) {
  const std::vector<int> gpus = c.machine.all(NodeKind::Gpu);
  if (gpus.empty()) return invalidArgument("--as tutti: the machine has no GPUs for Tutti's CUDA executors");
  DeviceFacts facts;
  DeviceLinks links;
  links.nvlink = true;
  for (const int gpu : gpus) {
    const topology::GpuInfo& info = c.machine.nodes[static_cast<size_t>(gpu)].gpu;
    if (!info.gcn.empty()) return invalidArgument("--as tutti: Tutti's executors run on CUDA, not on GPUs of AMD");
    facts.computeCapability = facts.computeCapability == 0 ? info.sm : std::min(facts.computeCapability, info.sm);
    const double port = portGBps(c.machine, gpu);
    links.portGBps = links.portGBps == 0 ? port : std::min(links.portGBps, port);
    links.nvlink &= std::ranges::any_of(c.machine.links, [&](const topology::Link& link) {
      return link.kind == LinkKind::NvLink && (link.a == gpu || link.b == gpu);
    });
  }
  links.deviceOf.resize(static_cast<size_t>(c.ranksPerNode));
  for (int rank = 0; rank < c.ranksPerNode; ++rank) {
    links.deviceOf[static_cast<size_t>(rank)] = rank * static_cast<int>(gpus.size()) / c.ranksPerNode;
  }
  return deviceCosts(way, facts, std::move(links));
}

/// Both ends copy at this rate beside what the message takes.
ProtocolSpec protocolOf(const char* name, const DeviceMessage& message, double copyGBps) {
  return {.name = name,
          .overheadUs = message.sendUs,
          .latencyUs = message.wayUs,
          .receiveUs = message.receiveUs,
          .copyGBps = copyGBps};
}

/// As src/plan/device_prices.cpp has it: a lane reads and writes `touchGBps`, copies at half of it, and combines an
/// operand in half of the time that a byte read or written takes.
void useLanes(double touchGBps, double callUs, Cluster* c) {
  if (!c->launchGiven) c->launchUs = callUs;
  if (!c->reduceGiven) c->reduceGBps = 2 * touchGBps;
  if (!c->copyGiven) c->copyGBps = touchGBps / 2;
}

void useBlocks(const DeviceCosts& costs, Cluster* c) {
  // A packet is as much flag as payload.
  ProtocolSpec packet = protocolOf("packet", costs.packet.far, costs.blockGBps / 2);
  packet.efficiency = 0.5;
  packet.mostBytes = double{kMostPacketBytes};
  if (!c->nearGiven) c->near = {packet, protocolOf("slot", costs.message.far, costs.blockGBps)};
  useLanes(2 * costs.blockGBps, costs.callUs, c);
  c->mostChannels = lanesForBandwidth(costs, true);
  c->packetBytes = double{kMostPacketBytes};
}

void useStreams(const DeviceCosts& costs, double callUs, Cluster* c) {
  if (!c->nearGiven) c->near = {protocolOf("copy", costs.message.far, costs.memoryGBps / 2)};
  useLanes(costs.memoryGBps, callUs, c);
  c->mostChannels = 1;
}

}  // namespace

const char* executorName(Executor executor) { return kNames[static_cast<size_t>(executor)]; }

Result<Executor> parseExecutor(const std::string& name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    return invalidUsage("--executor ", name, ": there are auto, resident, stream, proxy");
  }
  return static_cast<Executor>(found - kNames.begin());
}

Executor executorOf(Executor executor, const Cluster& cluster) {
  if (executor != Executor::Auto) return executor;
  return cluster.nodes > 1 ? Executor::Proxy : Executor::Stream;
}

Status useExecutor(Executor asked, Cluster* c) {
  const Executor executor = executorOf(asked, *c);
  if ((executor == Executor::Proxy) != (c->nodes > 1)) {
    return invalidArgument("--executor ", executorName(executor), ": between nodes there is proxy alone, and on one ",
                           "node where GPUs reach each other there are resident and stream");
  }
  const bool blocks = executor == Executor::Resident;
  TUTTI_ASSIGN(const DeviceCosts costs, costsOf(blocks ? DeviceExecutor::Blocks : DeviceExecutor::Streams, *c));
  if (!c->sliceGiven) c->sliceBytes = static_cast<double>(deviceSliceBytes(costs, c->ranksPerNode, kSlots));
  c->sliceGiven = true;
  if (blocks) {
    useBlocks(costs, c);
    return {};
  }
  if (executor == Executor::Stream) {
    useStreams(costs, costs.callUs, c);
    return {};
  }
  // Adapters read and write slots in the devices' memory.
  TUTTI_ASSIGN(const DeviceCosts proxy, costsOf(DeviceExecutor::Proxy, *c));
  useStreams(costs, proxy.callUs, c);
  DeviceMessage message = proxy.message.far;
  message.wayUs += kNetworkUs;
  if (!c->farGiven) c->far = {protocolOf("proxy", message, proxy.memoryGBps / 2)};
  return {};
}

}  // namespace tutti::sim
