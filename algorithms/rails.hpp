// Allgather and reduce-scatter of one list of blocks per member, over the levels of a hierarchy.
//
// A member's blocks go the way of its index in its group: in every other group they are carried by the member with that
// index, wrapped to the size of the group; those are a rail (and where it is known which adapters the ranks are near,
// they are on one: see Grouping).  So a rank is on several rails where its group is smaller
// than another.
#pragma once

#include "algorithms/hierarchy.hpp"

namespace tutti {

/// This rank's place among the members of a list, at one level.
struct Neighbourhood {
  Grouping grouping;
  Group local;  // its group, in rank numbers
  int own = 0;  // number of its group

  /// Position in the list of the member that carries in group `g` what belongs to index `index`.
  int carrier(int g, int index) const;
  /// The rails that this rank is on, ascending, each as the positions of its members in the list.
  struct Rail {
    int index = 0;
    std::vector<int> positions;
  };
  std::vector<Rail> rails() const;
  /// The ranks with this rank's index in their groups, each of which has to have one.
  std::vector<int> sameIndex(const std::vector<int>& members) const;
};
Neighbourhood neighbourhood(const Hierarchy& hierarchy, const std::vector<int>& members, int level, int rank);

/// The blocks that each member of the own group carries: those of the own group first, then of the groups that follow.
Parts carriedParts(const Neighbourhood& near, const Parts& parts);
/// The blocks of a rail's members: nothing for those who only carry.
Parts railParts(const Neighbourhood& near, const Neighbourhood::Rail& rail, const Parts& parts);

/// Of a rank that goes through the levels; chosen[step] as in Hierarchy::steps().
struct LevelWalk {
  const Hierarchy& hierarchy;
  const std::vector<LevelPart>& chosen;
  int rank;
  ScheduleBuilder& builder;
  Blocks& blocks;
};

/// parts[p] belong to members[p], as in phases.hpp.
struct RailWalk : LevelWalk {
  void reduceScatter(const std::vector<int>& members, const Parts& parts, int levels);
  void allGather(const std::vector<int>& members, const Parts& parts, int levels);
};

/// The schedule of an AllGather or a ReduceScatter: blocksOf and `all` are those of the collective.
template <class Walk>
Schedule walkLevels(const Shape& shape, const Hierarchy& hierarchy, const std::vector<LevelPart>& chosen,
                    Blocks (*blocksOf)(ScheduleBuilder&, const Shape&),
                    void (Walk::*all)(const std::vector<int>&, const Parts&, int)) {
  ScheduleBuilder b(shape);
  Blocks blocks = blocksOf(b, shape);
  Walk walk{{hierarchy, chosen, shape.rank, b, blocks}};
  (walk.*all)(everyone(shape).ranks, partPerPosition(shape.nRanks), hierarchy.depth());
  blocks.settle(shape.rank);
  return b.finish();
}

/// The cost of either, without reductions.  A rank has one block of shape.bytes.  reduced: bytes that the busiest rank
/// reduces.
double railsUs(const Shape& shape, const Hierarchy& hierarchy, const std::vector<LevelPart>& chosen,
               const CostModel& cost, double* reduced);

}  // namespace tutti
