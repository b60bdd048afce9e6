// reduce_scatter_perf: S bytes on every rank, S/n of the result stay on each; busbw counts (n-1)/n.
#include "perf/common/collective.hpp"

namespace tutti::perf {

const Collective kReduceScatter = {
    .name = "ReduceScatter",
    .program = "reduce_scatter_perf",
    .reduces = true,
    .rooted = false,
    .layout =
        [](const Geometry& g) {
          const size_t count = perRankCount(g), total = count * toSize(g.nRanks), bytes = total * g.elementBytes;
          return Layout{.sendCount = total,
                        .recvCount = count,
                        .count = count,
                        .rowBytes = bytes,
                        .trafficBytes = bytes,
                        .inPlaceRecv = count * toSize(g.rank)};
        },
    .expect =
        [](const Geometry& g) {
          const size_t count = perRankCount(g);
          return std::vector<Block>{{0, count, Block::kReduction, count * toSize(g.rank)}};
        },
    .call = [](const Call& c) { return tuttiReduceScatter(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream); },
    .busFactor = shareOfOthers,
    .estimate = [](const Call& c, tuttiEstimate_t* e) { return ask(c, tuttiCallReduceScatter, c.count, e); },
};

}  // namespace tutti::perf
