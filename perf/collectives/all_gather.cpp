// all_gather_perf: S bytes are gathered in all, S/n from each rank; busbw counts (n-1)/n.
#include "perf/common/collective.hpp"

namespace tutti::perf {

const Collective kAllGather = {
    .name = "AllGather",
    .program = "all_gather_perf",
    .reduces = false,
    .rooted = false,
    .layout =
        [](const Geometry& g) {
          const size_t count = perRankCount(g), total = count * toSize(g.nRanks), bytes = total * g.elementBytes;
          return Layout{.sendCount = count,
                        .recvCount = total,
                        .count = count,
                        .rowBytes = bytes,
                        .trafficBytes = bytes,
                        .inPlaceSend = count * toSize(g.rank)};
        },
    .expect =
        [](const Geometry& g) {
          const size_t count = perRankCount(g);
          std::vector<Block> blocks;
          for (int r = 0; r < g.nRanks; ++r) blocks.push_back({toSize(r) * count, count, r, 0});
          return blocks;
        },
    .call = [](const Call& c) { return tuttiAllGather(c.send, c.recv, c.count, c.type, c.comm, c.stream); },
    .busFactor = shareOfOthers,
    .estimate = [](const Call& c, tuttiEstimate_t* e) { return ask(c, tuttiCallAllGather, c.count, e); },
};

}  // namespace tutti::perf
