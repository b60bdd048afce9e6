// The blocks of an all-to-all that passes them on: where each of them is held until it leaves.
//
// A block is named by origin and destination.  What is for this rank lands in Output; what has to go on lies in
// scratch, which is used again.  In place, what is in the way of a block that arrives moves to scratch.
#pragma once

#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/phases.hpp"

namespace tutti {

/// (origin, destination)
using BlockName = std::pair<int, int>;
/// Blocks that go from one rank to another, in this order.
using Bundle = std::vector<BlockName>;
/// Every origin's for every destination.
Bundle bundle(const std::vector<int>& origins, const std::vector<int>& destinations);

class HeldBlocks {
 public:
  /// Holds this rank's input, and copies its block for itself.
  HeldBlocks(const Shape& shape, ScheduleBuilder& builder);

  /// between(p, q): what the member at position p of the group has for that at q.  All at once in one step, or
  /// (Pairwise) a step for each distance.
  void exchange(const Group& group, LevelPart part, const std::function<Bundle(int, int)>& between);

 private:
  void step(const Group& group, int firstDistance, int endDistance, const std::function<Bundle(int, int)>& between);
  void send(int peer, const BlockName& block);
  void recv(int peer, const BlockName& block);
  void endStep();
  Chunk roomInScratch();
  /// Of a block among all pairs of ranks.
  int numberOf(const BlockName& block) const { return block.first * nRanks_ + block.second; }
  void name(const BlockName& block);

  int me_;
  int nRanks_;
  bool inPlace_;
  bool namesValues_;
  ScheduleBuilder& b_;
  std::unordered_map<int, Chunk> held_;  // [numberOf a block]: those that are here and have to go on
  std::vector<Chunk> free_;
  std::vector<Chunk> leaving_;  // free from the end of the step on
};

}  // namespace tutti
