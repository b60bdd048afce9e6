// broadcast_perf: S bytes from the root to every rank.
#include "perf/common/collective.hpp"

namespace tutti::perf {

const Collective kBroadcast = {
    .name = "Broadcast",
    .program = "broadcast_perf",
    .reduces = false,
    .rooted = true,
    .layout =
        [](const Geometry& g) {
          const size_t count = g.bytes / g.elementBytes, bytes = count * g.elementBytes;
          return Layout{
              .sendCount = count, .recvCount = count, .count = count, .rowBytes = bytes, .trafficBytes = bytes};
        },
    .expect =
        [](const Geometry& g) {
          return std::vector<Block>{{0, g.bytes / g.elementBytes, g.root, 0}};
        },
    .call =
        [](const Call& c) {
          return tuttiBroadcast(c.send, c.recv, c.count, c.type, c.geometry.root, c.comm, c.stream);
        },
    .busFactor = one,
    .estimate = [](const Call& c, tuttiEstimate_t* e) { return ask(c, tuttiCallBroadcast, c.count, e); },
};

}  // namespace tutti::perf
