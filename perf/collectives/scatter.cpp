// scatter_perf: S bytes leave the root in all, S/n for each rank; busbw counts (n-1)/n.
#include "perf/common/collective.hpp"

namespace tutti::perf {

const Collective kScatter = {
    .name = "Scatter",
    .program = "scatter_perf",
    .reduces = false,
    .rooted = true,
    .layout =
        [](const Geometry& g) {
          const size_t count = perRankCount(g), total = count * toSize(g.nRanks), bytes = total * g.elementBytes;
          const bool root = g.rank == g.root;
          return Layout{.sendCount = root ? total : 0,
                        .recvCount = count,
                        .count = count,
                        .rowBytes = bytes,
                        .trafficBytes = bytes,
                        .inPlaceRecv = root ? count * toSize(g.rank) : 0};
        },
    .expect =
        [](const Geometry& g) {
          const size_t count = perRankCount(g);
          return std::vector<Block>{{0, count, g.root, toSize(g.rank) * count}};
        },
    .call =
        [](const Call& c) { return tuttiScatter(c.send, c.recv, c.count, c.type, c.geometry.root, c.comm, c.stream); },
    .busFactor = shareOfOthers,
    .estimate = [](const Call& c, tuttiEstimate_t* e) { return ask(c, tuttiCallScatter, c.count, e); },
};

}  // namespace tutti::perf
