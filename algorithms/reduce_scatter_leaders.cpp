// Reduce-scatter by leaders over any number of levels: the members of a group sum up along a binomial tree to its first
//   member what they have for everyone else; those leaders do the same with a level less; what they get for members of
//   the group goes down the tree, where it is added.
//   steps and bytes those of allgather_leaders.cpp, mirrored: up to ceil(log2 g) m g * B inside, and (m-1) g * B
//   between nodes by each leader.
//   Limits: needs several ranks in some group, nodes or in one; v forms too.  For small blocks, and ranks that share
//   cores.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/leaders.hpp"

namespace tutti::reduce_scatter_leaders {
namespace {

Schedule build(const Shape& shape) {
  const Hierarchy h(shape);
  return walkLevels(shape, h, leaderParts(shape, h), Blocks::ofReduceScatter, &LeaderWalk::reduceScatter);
}

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& chosen) {
  const LeadersCost spent = leadersCost(s, h, chosen, cost);
  return elapsedUs(cost, spent.criticalUs + cost.reduceUs(spent.mostReduced),
                   spent.workUs + cost.reduceUs(spent.meanReduced));
}

}  // namespace

extern constinit const Algorithm kReduceScatterLeaders = {
    .collective = Collective::ReduceScatter,
    .name = "leaders",
    .summary = "sums up to a leader of each group, across between leaders, and down; several nodes, small blocks",
    .lacks = lacksLeaders,
    .costUs = levelsUs<partsUs, leaderParts>,
    .build = build,
    .joins = true,
    .mustJoin = true,
    .chooseParts = chooseLevelParts<partsUs, kLeadersAcross, kLeadersInside>,
};

}  // namespace tutti::reduce_scatter_leaders
