#include "tools/nccl_model/channels.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::nccl_model {
namespace {

constexpr double kAlmost = 1e-9;
constexpr int kMostFound = 32;

/// NCCL 2.30.7, src/graph/search.cc (ncclTopoDupChannels): fast channels go as two of half the rate.
Channels doubled(Channels c, const GpuPart& gpu) {
  constexpr double kFast = 25, kFastHopper = 50;
  const bool enough = gpu.sm >= 90 && c.eachGBps < kFastHopper && c.found > 4;
  if (c.eachGBps >= kFast && !enough) {
    c.found *= 2;
    c.eachGBps /= 2;
  }
  c.used = 2 * c.found;
  return c;
}

Channels insideOf(const Machine& m) {
  for (const double rate : m.gpu->inside) {
    if (rate <= m.portGBps + kAlmost) {
      return {std::min(kMostFound, static_cast<int>(m.portGBps / rate + kAlmost)), rate};
    }
  }
  return {1, m.portGBps};
}

/// A channel for every adapter, at the highest rate that its link and the links inside the node carry for all.
Channels acrossOf(const Machine& m) {
  const int nets = std::clamp(m.nets, 1, kMostFound);
  const double each = m.netGBps / nets;
  for (const double rate : m.gpu->across) {
    if (rate <= each + kAlmost && rate * nets <= m.portGBps + kAlmost) return {nets, rate};
  }
  return {nets, std::min(each, m.portGBps / nets)};
}

}  // namespace

Channels ringsOf(const Machine& m) { return doubled(m.nodes == 1 ? insideOf(m) : acrossOf(m), *m.gpu); }

double treesGBps(const Machine& m, const Channels& rings) {
  return m.nodes == 2 ? std::min(2 * rings.gbps(), m.portGBps) : rings.gbps();
}

int channelsWorth(const Machine& m, const Channels& rings, Protocol protocol, bool ring, double bytes) {
  // NCCL 2.30.7, src/enqueue.cc (topoGetAlgoInfo) and src/include/comm.h: bytes that a thread has to have.
  double threads = kSimpleThreads, each = 64;
  if (protocol == Protocol::LL) {
    threads = kLlThreads;
    each = ring ? 8.0 * m.ranks() : 8;
  } else if (protocol == Protocol::LL128) {
    threads = kLl128Threads;
    each = 8;
  }
  return static_cast<int>(std::clamp(bytes / (threads * each), 1.0, static_cast<double>(rings.used)));
}

SwitchParts switchPartsOf(const Machine& m, Way way, int release, double bytes) {
  // NCCL 2.30.7, src/enqueue.cc (calcCollChunking): chunks shrink until there are some for every stage.
  struct Step {
    double loops, chunkBytes;
  };
  constexpr Step kInside[] = {{64, 64 << 10}, {8, 32 << 10}, {2, 16 << 10}};
  constexpr Step kTrees[] = {{32, 256 << 10}, {16, 128 << 10}, {4, 64 << 10}, {1, 32 << 10}};
  const bool trees = way == Way::NvlsTree;
  SwitchParts parts;
  parts.heads = std::min<double>(m.perNode, kMostHeads);
  // Before 2.27 a node alone had as many as one of several.
  parts.channels = m.nodes == 1 && release >= 227 ? m.gpu->nvlsChannels : m.gpu->nvlsChannelsAcross;
  const double own = trees && m.nodes >= 4 ? 64 << 10 : 128 << 10;  // src/transport/nvls.cc
  parts.chunkBytes = m.net->switchChunk > 0 ? m.net->switchChunk : own;
  for (const Step& step : trees ? std::span<const Step>(kTrees) : std::span<const Step>(kInside)) {
    if (bytes < step.loops * parts.loopBytes() && parts.chunkBytes > step.chunkBytes)
      parts.chunkBytes = step.chunkBytes;
  }
  return parts;
}

double ringChunk(const Machine& m) { return m.net->bufferBytes / 2; }

double slotBytes(const Machine& m) { return m.net->bufferBytes / 8; }

}  // namespace tutti::nccl_model
