// Allgather and reduce-scatter by leaders: the first member of each group carries everything for all of it.
//
// A group's blocks go up a binomial tree to its leader.  The leaders do the same with a level less, and exchange blocks
// across the outermost groups.  Then each leader sends the blocks from elsewhere down its tree.  Few messages cross
// levels, and each holds all blocks of a group.  That is for small blocks: messages cost more than bytes there.
#pragma once

#include "algorithms/rails.hpp"

namespace tutti {

/// Algorithm::lacks of those that go by leaders: where all groups have one member everyone leads.
const char* lacksLeaders(const Shape& shape);

/// The parts of the shape, if they fit; else one message to every leader across the outermost groups.
std::vector<LevelPart> leaderParts(const Shape& shape, const Hierarchy& hierarchy);

/// The first members of the groups of a list, in rank numbers, and for each of them the parts of its group's members.
struct Leaders {
  std::vector<int> ranks;
  Parts parts;
};
Leaders leadersOf(const Grouping& grouping, const std::vector<int>& members, const Parts& parts);

/// As RailWalk; chosen[0] is the way across the outermost groups.
struct LeaderWalk : LevelWalk {
  void reduceScatter(const std::vector<int>& members, const Parts& parts, int levels);
  void allGather(const std::vector<int>& members, const Parts& parts, int levels);
};

/// The parts that algorithms by leaders know.
inline constexpr LevelPart kLeadersInside[] = {LevelPart::Tree};
inline constexpr LevelPart kLeadersAcross[] = {LevelPart::Direct, LevelPart::Circulant};

/// The cost of either.  A rank has one block of shape.bytes.
struct LeadersCost {
  double criticalUs = 0, workUs = 0;        // of the leaders, and on average of all ranks; without reductions
  double mostReduced = 0, meanReduced = 0;  // bytes that a leader reduces, and on average all ranks
};
LeadersCost leadersCost(const Shape& shape, const Hierarchy& hierarchy, const std::vector<LevelPart>& chosen,
                        const CostModel& cost);

}  // namespace tutti
