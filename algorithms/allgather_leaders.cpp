// Allgather by leaders over any number of levels: the blocks of a group go up a binomial tree to its first member,
//   the leader; leaders do the same with a level less; then all other blocks come down.
//   steps ceil(log2 g) up and down per level, across m groups 1 (direct) or ceil(log2 m) (circulant); with g ranks on
//   each of m nodes a leader sends (m-1) g * B between nodes, as all ranks of its node do by rails, in 1/g of the
//   messages, and up to ceil(log2 g) m g * B inside.
//   Limits: needs several ranks in some group, nodes or in one; v forms too.  For small blocks, and ranks that share
//   cores.
//   Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation performance",
//   IPDPS 2000.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/leaders.hpp"

namespace tutti::allgather_leaders {
namespace {

Schedule build(const Shape& shape) {
  const Hierarchy h(shape);
  return walkLevels(shape, h, leaderParts(shape, h), Blocks::ofAllGather, &LeaderWalk::allGather);
}

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& chosen) {
  const LeadersCost spent = leadersCost(s, h, chosen, cost);
  return elapsedUs(cost, spent.criticalUs, spent.workUs);
}

}  // namespace

extern constinit const Algorithm kAllGatherLeaders = {
    .collective = Collective::AllGather,
    .name = "leaders",
    .summary = "to a leader of each group, across between leaders, and down again; several nodes, small blocks",
    .lacks = lacksLeaders,
    .costUs = levelsUs<partsUs, leaderParts>,
    .build = build,
    .joins = true,
    .mustJoin = true,
    .chooseParts = chooseLevelParts<partsUs, kLeadersAcross, kLeadersInside>,
};

}  // namespace tutti::allgather_leaders
