// Allgather and reduce-scatter by leaders: the first member of each group carries everything for all of it.
//
// What a group has goes up a binomial tree to its leader; the leaders do the same with a level less, at the end across
// the outermost groups; what comes from elsewhere goes down again.  So few messages cross levels, which are as large as
// all blocks of a group: for blocks that are small, where messages cost more than bytes.
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
struct LeaderWalk {
  const Hierarchy& hierarchy;
  const std::vector<LevelPart>& chosen;
  int rank;
  ScheduleBuilder& builder;
  Blocks& blocks;

  void reduceScatter(const std::vector<int>& members, const Parts& parts, int levels);
  void allGather(const std::vector<int>& members, const Parts& parts, int levels);
};

/// What either costs for blocks of shape.bytes, one per rank; reduced: bytes that a rank reduces.
struct LeadersCost {
  double criticalUs = 0, workUs = 0;  // of the leaders, and on average of all ranks; without reductions
  double mostReduced = 0, meanReduced = 0;
};
LeadersCost leadersCost(const Shape& shape, const Hierarchy& hierarchy, const std::vector<LevelPart>& chosen,
                        const CostModel& cost);

}  // namespace tutti
