// All-to-all: every rank sends every other one its block, eight of them under way on a channel at once.
#include <algorithm>
#include <cmath>

#include "tools/nccl_model/ways.hpp"

namespace tutti::nccl_model {

WayTime pairsTime(const Call& call, Protocol protocol) {
  constexpr double kAtOnce = 8;  // NCCL 2.30.7, src/include/device.h: pairs in a batch
  const Machine& m = call.machine;
  const double block = call.bytes / m.ranks(), wires = protocol == Protocol::LL ? 2 : 1;
  const double inside = block * (m.perNode - 1) * wires / perUs(m.portGBps);
  const double acrossBytes = block * (m.ranks() - m.perNode) * m.perNode * wires;
  const double across = m.nodes > 1 ? acrossBytes / perUs(m.netGBps) : 0;
  const double batches = std::ceil((m.ranks() - 1) / kAtOnce);
  const double hop =
      m.nodes > 1 ? hopTakesUs(call, Way::Pairs, protocol, block) : hopUs(Way::Pairs, protocol, m.inside);
  const double post = m.nodes > 1 ? postUs(m.amdCpu) * (m.ranks() - m.perNode) : 0;
  return {.latencyUs = baseUs(Way::Pairs, protocol) + batches * hop + post,
          .dataUs = std::max(inside, across),
          .channels = call.rings.used};
}

}  // namespace tutti::nccl_model
