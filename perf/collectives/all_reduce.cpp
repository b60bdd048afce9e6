// all_reduce_perf: S bytes on every rank; busbw counts 2(n-1)/n, what a ring sends per rank.
#include "perf/common/collective.hpp"

namespace tutti::perf {

const Collective kAllReduce = {
    .name = "AllReduce",
    .program = "all_reduce_perf",
    .reduces = true,
    .rooted = false,
    .layout =
        [](const Geometry& g) {
          const size_t count = g.bytes / g.elementBytes, bytes = count * g.elementBytes;
          return Layout{
              .sendCount = count, .recvCount = count, .count = count, .rowBytes = bytes, .trafficBytes = bytes};
        },
    .expect = [](const Geometry& g) { return std::vector<Block>{{.offset = 0, .count = g.bytes / g.elementBytes}}; },
    .call = [](const Call& c) { return tuttiAllReduce(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream); },
    .busFactor = [](int nRanks) { return 2 * shareOfOthers(nRanks); },
    .estimate = [](const Call& c, tuttiEstimate_t* e) { return ask(c, tuttiCallAllReduce, c.count, e); },
};

}  // namespace tutti::perf
