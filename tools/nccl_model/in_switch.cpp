// Reductions in NVLink's switches (NVLS), between nodes by trees or by the network's switches (SHARP).
//   Every GPU has a part of the vector reduced by the switch: all send theirs up, one gets the sum and sends it back
//   through the switch to all.  A GPU's links carry 1 + 1/heads times the vector each way.
//   Three stages run at once, in warps of their own: into the switch's buffers, reduced and sent out, out of the
//   buffers.  A loop over all heads and channels costs a stage its bytes and a fence and flag.
#include <algorithm>
#include <cmath>

#include "tools/nccl_model/ways.hpp"

namespace tutti::nccl_model {
namespace {

constexpr double kStages = 3;

/// Of one node, or inside every one of several.
WayTime insideTime(const Call& call, const SwitchParts& parts) {
  const Machine& m = call.machine;
  const double traffic = call.allReduce() ? 1 + 1 / parts.heads : 1;
  const double rate = perUs(m.portGBps * m.gpu->nvlsShare / traffic);
  const double loops = std::max(1.0, std::ceil(call.bytes / parts.loopBytes()));
  const double first = std::min(call.bytes, parts.loopBytes());
  const double syncUs = hopUs(Way::Ring, Protocol::Simple, m.inside);
  WayTime t{.channels = static_cast<int>(parts.channels), .chunkBytes = parts.chunkBytes};
  t.latencyUs = baseUs(Way::Nvls, Protocol::Simple) + (kStages - 1) * (first / rate + syncUs);
  t.dataUs = call.bytes / rate + loops * loopSyncUs();
  return t;
}

/// Between nodes by NCCL's figures for a channel: nobody has published more.  The first loop goes through every hop
/// alone.
WayTime acrossTime(const Call& call, Way way, const SwitchParts& parts) {
  const Machine& m = call.machine;
  const double each = m.netGBps / parts.heads;
  const double hops = way == Way::NvlsTree ? 2 * std::floor(std::log2(m.nodes)) : 1;
  double most = each * (way == Way::NvlsTree && m.nodes == 2 ? 2 : 1);
  if (way == Way::NvlsTree) most = std::min(most, m.gpu->nvlsTree[m.column()]);
  // NCCL's figures are of the bus.  Adapters carry the vector once, inner nodes of a tree of more than two twice.
  const double adapters = m.netGBps / (way == Way::NvlsTree && m.nodes > 2 ? 2 : 1);
  const double rate = perUs(std::min(parts.heads * most / call.ringTraffic(), adapters));
  const double first = std::min(call.bytes, parts.loopBytes());
  return {.latencyUs = hops * (hopTakesUs(call, way, Protocol::Simple, parts.chunkBytes) + first / perUs(adapters)) +
                       firstAskUs(call, parts.chunkBytes),
          .dataUs = call.bytes / rate};
}

}  // namespace

WayTime switchTime(const Call& call, Way way) {
  const SwitchParts parts = switchPartsOf(call.machine, way, call.settings.release, call.bytes);
  WayTime t = insideTime(call, parts);
  if (way == Way::Nvls) return t;
  // Both at once, chunk behind chunk: the slower one counts.
  const WayTime across = acrossTime(call, way, parts);
  t.latencyUs += across.latencyUs;
  t.dataUs = std::max(t.dataUs, across.dataUs);
  return t;
}

}  // namespace tutti::nccl_model
