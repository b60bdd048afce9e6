// reduce_perf: S bytes on every rank, the result on the root only.
#include "perf/common/collective.hpp"

namespace tutti::perf {

const Collective kReduce = {
    .name = "Reduce",
    .program = "reduce_perf",
    .reduces = true,
    .rooted = true,
    .layout =
        [](const Geometry& g) {
          const size_t count = g.bytes / g.elementBytes, bytes = count * g.elementBytes;
          return Layout{
              .sendCount = count, .recvCount = count, .count = count, .rowBytes = bytes, .trafficBytes = bytes};
        },
    .expect =
        [](const Geometry& g) {
          std::vector<Block> blocks;
          if (g.rank == g.root) blocks.push_back({.offset = 0, .count = g.bytes / g.elementBytes});
          return blocks;
        },
    .call =
        [](const Call& c) {
          return tuttiReduce(c.send, c.recv, c.count, c.type, c.op, c.geometry.root, c.comm, c.stream);
        },
    .busFactor = one,
    .estimate = [](const Call& c, tuttiEstimate_t* e) { return ask(c, tuttiCallReduce, c.count, e); },
};

}  // namespace tutti::perf
