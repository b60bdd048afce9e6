// alltoall_perf: S bytes on every rank, S/n to each other rank; busbw counts (n-1)/n.
#include "perf/common/collective.hpp"

namespace tutti::perf {

const Collective kAllToAll = {
    .name = "AlltoAll",
    .program = "alltoall_perf",
    .reduces = false,
    .rooted = false,
    .layout =
        [](const Geometry& g) {
          const size_t count = perRankCount(g), total = count * toSize(g.nRanks), bytes = total * g.elementBytes;
          return Layout{
              .sendCount = total, .recvCount = total, .count = count, .rowBytes = bytes, .trafficBytes = bytes};
        },
    .expect =
        [](const Geometry& g) {
          const size_t count = perRankCount(g);
          std::vector<Block> blocks;
          for (int r = 0; r < g.nRanks; ++r) blocks.push_back({toSize(r) * count, count, r, toSize(g.rank) * count});
          return blocks;
        },
    .call = [](const Call& c) { return tuttiAllToAll(c.send, c.recv, c.count, c.type, c.comm, c.stream); },
    .busFactor = shareOfOthers,
    .estimate = [](const Call& c, tuttiEstimate_t* e) { return ask(c, tuttiCallAllToAll, c.count, e); },
};

}  // namespace tutti::perf
