// Double binary trees between nodes, chains inside them: partial sums go up, sums come down, chunk behind chunk.
//   A GPU sends its chain's data up and down: half of its links' rate each.
//   An adapter of two nodes carries half of the vector each way for each of the two trees; with more nodes the inner
//   ones receive from two others: twice as much.
#include <algorithm>
#include <cmath>

#include "tools/nccl_model/ways.hpp"

namespace tutti::nccl_model {
namespace {

double nodeHops(const Machine& m) { return 2 * std::floor(std::log2(m.nodes)); }

/// What an adapter carries as a part of the vector, with all others as many.
double netTraffic(const Machine& m) { return m.nodes == 2 ? 1 : 2; }

double latencyUs(const Call& call, Protocol protocol, double messageBytes) {
  const Machine& m = call.machine;
  const double across = m.nodes > 1 ? nodeHops(m) * hopTakesUs(call, Way::Tree, protocol, messageBytes) : 0;
  return baseUs(Way::Tree, protocol) + 2 * (m.perNode - 1) * hopUs(Way::Tree, protocol, m.inside) + across +
         firstAskUs(call, messageBytes);
}

/// Flags travel with data, so a chunk is under way on several links at once.  How far that falls short of it at middle
/// sizes is NCCL's own table.
WayTime withFlags(const Call& call, Protocol protocol, int channels) {
  const Machine& m = call.machine;
  const GpuPart& gpu = *m.gpu;
  double links = m.portGBps / 2;
  if (m.nodes > 1) links = std::min(links, m.netGBps / netTraffic(m));
  double rate = std::min(kLineShare * links, call.rings.found * gpu.tree[m.column()] / 2);
  if (protocol == Protocol::LL) {
    rate = std::min(rate / 3.8, (m.nodes == 1 ? gpu.llGBps : llAcrossGBps(m.amdCpu, m.nodes)) / 2);
  } else {
    rate = std::min(rate * (m.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                    call.rings.found * gpu.treeLl128[m.column()] / 2 * call.fitted.reduceShare);
  }
  return {.latencyUs = latencyUs(call, protocol, call.bytes / channels),
          .dataUs = call.bytes / perUs(rate * treeShare(protocol, call.bytes)),
          .channels = channels};
}

/// A chunk is sent on when all of it is there: the first goes through every link alone, the others keep the slowest
/// link busy.
WayTime inChunks(const Call& call, int channels) {
  const Machine& m = call.machine;
  const double perChannel = call.bytes / channels;
  WayTime t{.channels = channels, .chunkBytes = std::min(perChannel, slotBytes(m))};
  const auto handedOnUs = [&](double blockGBps) {
    return t.chunkBytes / perUs(std::min(blockGBps, m.portGBps / channels));
  };
  const double block = m.gpu->tree[m.column()] * call.rings.found / 2 / channels;  // that a channel keeps up with
  const double bothUs = t.chunkBytes / perUs(std::min(block, m.portGBps / 2 / channels));  // up and down at once
  double firstUs = (m.perNode - 1) * (handedOnUs(blockReducesGBps()) + handedOnUs(blockCopiesGBps()));
  double slowestUs = m.perNode > 1 ? bothUs : 0;
  if (m.nodes > 1) {
    const double netUs = t.chunkBytes * netTraffic(m) / perUs(kLineShare * m.netGBps / channels);
    // The first chunks of both trees cross in opposite directions.
    firstUs += nodeHops(m) * netUs / 2;
    slowestUs = std::max(slowestUs, netUs);
  }
  t.latencyUs = latencyUs(call, Protocol::Simple, t.chunkBytes) + firstUs;
  t.dataUs = perChannel > t.chunkBytes ? (perChannel / t.chunkBytes - 1) * slowestUs : 0;
  return t;
}

}  // namespace

WayTime treeTime(const Call& call, Protocol protocol) {
  const int channels = channelsWorth(call.machine, call.rings, protocol, false, call.bytes);
  return protocol == Protocol::Simple ? inChunks(call, channels) : withFlags(call, protocol, channels);
}

}  // namespace tutti::nccl_model
