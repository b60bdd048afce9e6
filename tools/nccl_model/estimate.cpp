#include "tools/nccl_model/estimate.hpp"

#include <algorithm>
#include <cmath>

#include "src/base/text.hpp"

namespace tutti::nccl_model {
namespace {

constexpr double kHopperShare = 0.85;  // of its links that NVLS reaches, as NCCL expects

bool isNamed(const std::string& list, std::string_view name) {
  if (list.empty()) return true;
  for (const std::string& one : split(list, ',')) {
    const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
    if (std::ranges::equal(one, name, same)) return true;
  }
  return false;
}

double log2Nodes(const Machine& m) { return std::floor(std::log2(m.nodes)); }

/// Before 2.20 Hopper had Ampere's; before 2.21 rings by LL a quarter or a third of the wire.
double llBus(const Call& call) {
  const Machine& m = call.machine;
  double most = m.gpu->llGBps;
  if (call.settings.release < 220 && m.gpu->sm >= 90) most = 87.7;
  if (m.nodes > 1) most = llAcrossGBps(m.amdCpu, m.nodes);
  double share = 0.5;
  if (call.settings.release < 221) share = m.nodes > 1 || call.allReduce() ? 1.0 / 4 : 1.0 / 3;
  return std::min(most, share * call.rings.gbps());
}

double ringBus(const Call& call, Protocol protocol) {
  const Machine& m = call.machine;
  const double bus = call.rings.gbps();
  if (protocol == Protocol::LL) return llBus(call);
  if (protocol == Protocol::Simple) return bus;
  return std::min(kLineShare * bus, call.rings.found * m.gpu->ringLl128[m.column()]);
}

double treeBus(const Call& call, Protocol protocol) {
  const Machine& m = call.machine;
  double bus = std::min(kLineShare * treesGBps(m, call.rings), call.rings.found * m.gpu->tree[m.column()]);
  if (protocol == Protocol::LL) {
    bus = std::min(bus / 3.8, m.nodes == 1 ? m.gpu->llGBps : llAcrossGBps(m.amdCpu, m.nodes));
  } else if (protocol == Protocol::LL128) {
    bus = std::min(bus * (m.nodes == 1 ? 7.0 / 9 : 120.0 / 128), call.rings.found * m.gpu->treeLl128[m.column()]);
  }
  return bus * treeShare(protocol, call.bytes);
}

/// The highest rate that the search tries for a channel inside a node and finds: few GPUs get less than their links.
double rateTried(const GpuPart& gpu, double gbps) {
  const auto rate = std::ranges::find_if(gpu.inside, [&](double tried) { return tried <= gbps + 1e-9; });
  return rate == gpu.inside.end() ? gbps : *rate;
}

/// Of the switch's reductions a channel, times channels: one for each GPU that has a part reduced.
double switchBus(const Call& call, Way way) {
  const Machine& m = call.machine;
  const double channels = std::min<double>(m.perNode, kMostHeads);
  if (way == Way::Nvls && call.settings.release < 219) return m.portGBps;
  // Before 2.28 Blackwell had Hopper's share.
  const double share = call.settings.release < 228 ? std::max(kHopperShare, m.gpu->nvlsShare) : m.gpu->nvlsShare;
  double most = rateTried(*m.gpu, m.portGBps / channels) * share * (channels - 1) / channels;
  most *= call.allReduce() ? 2 : (m.perNode - 1.0) / m.perNode;
  if (way == Way::Nvls) return channels * most;
  const double across = m.netGBps / channels * (way == Way::NvlsTree && m.nodes == 2 ? 2 : 1);
  most = std::min(most, across);
  if (way == Way::NvlsTree) most = std::min(most, m.gpu->nvlsTree[m.column()]);
  return channels * most;
}

/// With a flush, whether there is one or not.
double hopSeemsUs(const Call& call, Way way, Protocol protocol) {
  const Machine& m = call.machine;
  const double told = m.net->toldUs > 0 ? m.net->toldUs : m.netUs;
  return netHopUs(call, way, protocol) + told * (protocol == Protocol::Simple ? 2 : 1);
}

double ringLatency(const Call& call, Protocol protocol) {
  const Machine& m = call.machine;
  const double inside = hopUs(Way::Ring, protocol, m.inside);
  if (!call.allReduce() && !call.blocks()) {
    return m.nodes == 1 ? inside : hopUs(Way::Ring, protocol, Hop::Net) * call.steps();
  }
  const double post = m.nodes == 1 ? 0 : postUs(m.amdCpu) * (protocol == Protocol::Simple ? 3 : 1);
  return (call.steps() - call.stepsAcross()) * std::max(inside, post) +
         call.stepsAcross() * hopSeemsUs(call, Way::Ring, protocol);
}

double latency(const Call& call, Way way, Protocol protocol) {
  const Machine& m = call.machine;
  const double across = m.nodes > 1 ? hopSeemsUs(call, way, protocol) : 0;
  switch (way) {
    case Way::Ring: return baseUs(way, protocol) + ringLatency(call, protocol);
    case Way::Tree:
      return baseUs(way, protocol) + 2 * ((m.perNode - 1) * hopUs(way, protocol, m.inside) + log2Nodes(m) * across);
    case Way::Nvls:
    case Way::NvlsSharp: return hopUs(way, protocol, m.inside) + across;
    case Way::NvlsTree: return hopUs(way, protocol, m.inside) + 2 * log2Nodes(m) * across;
    case Way::Pairs: break;
  }
  return 0;
}

/// Bytes of the call by those of the bus.
double conversion(const Call& call, Way way) {
  const Machine& m = call.machine;
  if (way == Way::Tree) return 0.5;
  if (way == Way::Ring) return 1 / call.ringTraffic();
  if (way == Way::Nvls && call.settings.release < 219) return 5.0 / 6;
  return call.allReduce() ? static_cast<double>(m.ranks()) / call.steps() : 1;
}

double bus(const Call& call, Way way, Protocol protocol) {
  if (way == Way::Ring) return ringBus(call, protocol);
  return way == Way::Tree ? treeBus(call, protocol) : switchBus(call, way);
}

bool reducesInSwitch(const Call& call, Way way) {
  const Machine& m = call.machine;
  if (m.gpu->nvlsShare <= 0 || !m.nvSwitch || m.perNode < 2) return false;
  if (call.blocks()) return way == Way::Nvls && m.nodes == 1 && call.settings.release >= 219;
  if (!call.allReduce()) return false;
  if (way == Way::NvlsSharp) return m.nodes > 1 && call.settings.sharp;
  return way == Way::Nvls ? m.nodes == 1 : m.nodes > 1;
}

}  // namespace

bool considers(const Call& call, Way way, Protocol protocol) {
  if (!isNamed(call.settings.ways, nameOf(way)) || !isNamed(call.settings.protocols, nameOf(protocol))) return false;
  if (protocol != Protocol::Simple && !call.machine.net->keepsLines) return false;
  // LL128 needs links that keep lines whole.
  if (protocol == Protocol::LL128 && (call.machine.inside != Hop::NvLink || call.machine.gpu->sm < 70)) return false;
  switch (way) {
    case Way::Ring: return call.collective != Collective::AllToAll;
    case Way::Tree: return call.allReduce();
    case Way::Nvls:
    case Way::NvlsTree:
    case Way::NvlsSharp: return protocol == Protocol::Simple && reducesInSwitch(call, way);
    case Way::Pairs: return call.collective == Collective::AllToAll && protocol != Protocol::LL128;
  }
  return false;
}

double estimateUs(const Call& call, Way way, Protocol protocol) {
  if (way == Way::Pairs) {
    // Not by estimate: LL up to so many bytes a pair and channel.
    constexpr double kMostLl = 16 << 10;
    return (protocol == Protocol::LL) == (call.bytes / call.machine.ranks() <= kMostLl) ? 0 : 1;
  }
  double us = latency(call, way, protocol);
  if (way == Way::Ring && protocol == Protocol::Simple && call.machine.nodes > 1 && call.allReduce()) {
    us *= plateauOfRing(*call.machine.gpu);
  }
  return us + call.bytes / perUs(bus(call, way, protocol) * conversion(call, way));
}

}  // namespace tutti::nccl_model
