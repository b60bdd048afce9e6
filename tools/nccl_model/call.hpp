// One call on one machine: what the files about ways are given.
#pragma once

#include "src/collective/call.hpp"
#include "tools/nccl_model/channels.hpp"
#include "tools/nccl_model/settings.hpp"

namespace tutti::nccl_model {

struct Call {
  Machine machine;
  Channels rings;
  Collective collective = Collective::AllReduce;
  /// NCCL's size of a call: the vector, of allgather and reducescatter all ranks' blocks, of alltoall what a rank
  /// sends.
  double bytes = 0;
  Settings settings;
  Fitted fitted;

  bool allReduce() const { return collective == Collective::AllReduce; }
  bool blocks() const { return collective == Collective::AllGather || collective == Collective::ReduceScatter; }
  bool reduces() const { return collective != Collective::AllGather && collective != Collective::Broadcast; }
  /// Of a ring.
  int steps() const {
    const int p = machine.ranks();
    return allReduce() ? 2 * (p - 1) : blocks() ? p - 1 : p;
  }
  /// Of those the ones between nodes.
  int stepsAcross() const {
    const int m = machine.nodes;
    return m == 1 ? 0 : allReduce() ? 2 * (m - 1) : m - 1;
  }
  /// What each link of a ring carries, as a part of the bytes.
  double ringTraffic() const { return static_cast<double>(steps()) / machine.ranks(); }
};

/// Between nodes, without adapters' latencies.  With one GPU a node nothing hides the hop: NCCL takes a tree's.
inline double netHopUs(const Call& call, Way way, Protocol protocol) {
  return hopUs(way == Way::Ring && call.machine.perNode == 1 ? Way::Tree : way, protocol, Hop::Net);
}

/// The time of a hop between nodes, for a message of so many bytes.  By Simple, GPUs before Hopper also read once (a
/// flush), which makes the received data visible.
inline double hopTakesUs(const Call& call, Way way, Protocol protocol, double bytes) {
  const NetPart& net = *call.machine.net;
  const bool flushes = protocol == Protocol::Simple && call.machine.gpu->sm < 90;
  const double asks = net.packetBytes > 0 && bytes > net.packetBytes ? net.asksEach : 0;
  return netHopUs(call, way, protocol) + call.machine.netUs * ((flushes ? 2 : 1) + asks);
}

/// The time until the receiver has said where a call's first message may go.
inline double firstAskUs(const Call& call, double bytes) {
  const NetPart& net = *call.machine.net;
  return call.machine.nodes > 1 && net.packetBytes > 0 && bytes > net.packetBytes ? net.asksFirst * call.machine.netUs
                                                                                  : 0;
}

inline double perUs(double gbps) { return gbps * 1e3; }  // bytes in a microsecond

}  // namespace tutti::nccl_model
