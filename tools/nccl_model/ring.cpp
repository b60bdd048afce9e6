// Rings: every step a block of threads waits for a chunk, combines or copies it, and sends it on.
//   LL, LL128  flags travel with data, so a step's bytes are on the wire while its first are already further on
//   Simple     a chunk is two slices; each costs a fence, for which what the block has sent has to arrive, and a flag
// The broadcast and reduce of NCCL are rings too, through which chunks go one behind the other.
#include <algorithm>

#include "tools/nccl_model/ways.hpp"

namespace tutti::nccl_model {
namespace {

/// GB/s that all channels of the ring carry as data.
double rateOf(const Call& call, Protocol protocol, int channels) {
  const Machine& m = call.machine;
  const double wire = m.ringGBps();
  if (protocol == Protocol::LL) {
    const double all = m.nodes == 1 ? m.gpu->llGBps : llAcrossGBps(m.amdCpu, m.nodes);
    return std::min({all, wire / 2, channels * llBlockGBps(*m.gpu)});
  }
  if (protocol == Protocol::Simple) return wire;
  double blocks = m.gpu->ringLl128[m.column()] * call.rings.found;
  if (call.reduces()) blocks *= call.fitted.reduceShare;
  return std::min(kLineShare * wire, blocks);
}

double stepsUs(const Call& call, Protocol protocol, double chunkBytes) {
  const Machine& m = call.machine;
  const double post = m.nodes == 1 ? 0 : postUs(m.amdCpu) * (protocol == Protocol::Simple ? 3 : 1);
  const double inside = std::max(hopUs(Way::Ring, protocol, m.inside), post);
  return (call.steps() - call.stepsAcross()) * inside +
         call.stepsAcross() * hopTakesUs(call, Way::Ring, protocol, chunkBytes) + firstAskUs(call, chunkBytes);
}

/// One chunk behind the other through all ranks.
WayTime pipelineTime(const Call& call, Protocol protocol, double rate, int channels) {
  const Machine& m = call.machine;
  WayTime t{.channels = channels, .chunkBytes = std::min(call.bytes / channels, slotBytes(m))};
  const double hops = m.ranks() - 1, across = m.nodes - 1;
  const double hop = (hops - across) * hopUs(Way::Ring, protocol, m.inside) +
                     (across > 0 ? across * hopTakesUs(call, Way::Ring, protocol, t.chunkBytes) : 0) +
                     firstAskUs(call, t.chunkBytes);
  const double chunks = protocol == Protocol::Simple ? hops * t.chunkBytes * channels / perUs(rate) : 0;
  t.latencyUs = baseUs(Way::Ring, protocol) + hop + chunks;
  t.dataUs = call.bytes / perUs(rate);
  return t;
}

}  // namespace

WayTime ringTime(const Call& call, Protocol protocol) {
  const Machine& m = call.machine;
  const int channels = channelsWorth(m, call.rings, protocol, true, call.bytes);
  const double rate = rateOf(call, protocol, channels);
  if (!call.allReduce() && !call.blocks()) return pipelineTime(call, protocol, rate, channels);
  const double perChannel = call.bytes / m.ranks() / channels;
  const double chunk = std::min(perChannel, ringChunk(m));
  WayTime t{.latencyUs = baseUs(Way::Ring, protocol) + stepsUs(call, protocol, chunk), .channels = channels};
  t.dataUs = call.bytes * call.ringTraffic() / perUs(rate);
  if (protocol != Protocol::Simple) return t;
  t.chunkBytes = chunk;
  if (m.nodes == 1) {
    const double drainUs = call.fitted.drainBytes / perUs(m.gpu->ringLl128[0]);
    t.dataUs += std::max(1.0, perChannel / ringChunk(m)) * call.steps() * drainUs;
  } else if (call.allReduce()) {
    t.latencyUs *= plateauOfRing(*m.gpu);
  }
  return t;
}

}  // namespace tutti::nccl_model
