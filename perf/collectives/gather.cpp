// gather_perf: S bytes arrive at the root in all, S/n from each rank; busbw counts (n-1)/n.
#include "perf/common/collective.hpp"

namespace tutti::perf {

const Collective kGather = {
    .name = "Gather",
    .program = "gather_perf",
    .reduces = false,
    .rooted = true,
    .layout =
        [](const Geometry& g) {
          const size_t count = perRankCount(g), total = count * toSize(g.nRanks), bytes = total * g.elementBytes;
          const bool root = g.rank == g.root;
          return Layout{.sendCount = count,
                        .recvCount = root ? total : 0,
                        .count = count,
                        .rowBytes = bytes,
                        .trafficBytes = bytes,
                        .inPlaceSend = root ? count * toSize(g.rank) : 0};
        },
    .expect =
        [](const Geometry& g) {
          const size_t count = perRankCount(g);
          std::vector<Block> blocks;
          for (int r = 0; r < g.nRanks && g.rank == g.root; ++r) blocks.push_back({toSize(r) * count, count, r, 0});
          return blocks;
        },
    .call =
        [](const Call& c) { return tuttiGather(c.send, c.recv, c.count, c.type, c.geometry.root, c.comm, c.stream); },
    .busFactor = shareOfOthers,
    .estimate = [](const Call& c, tuttiEstimate_t* e) { return ask(c, tuttiCallGather, c.count, e); },
};

}  // namespace tutti::perf
