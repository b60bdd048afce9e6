// An algorithm: one file that turns a Shape into a Schedule, and says what that costs.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "src/cost/linear_cost.hpp"
#include "src/schedule/builder.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti {

struct Algorithm {
  Collective collective;
  std::string_view name;     // as in TUTTI_ALGO
  std::string_view summary;  // one line: idea and where it wins
  /// What build() needs and this shape does not have, such as "a power of two of ranks"; null: it works.  Depends on
  /// nothing that differs between ranks (not on shape.rank).  None: it works for every shape.
  const char* (*lacks)(const Shape& shape) = nullptr;
  /// Closed form of what it costs, microseconds, from steps and bytes, where running build()'s schedules (src/sim)
  /// would take too long; the same on every rank.
  double (*costUs)(const Shape& shape, const CostModel& cost);
  Schedule (*build)(const Shape& shape);
  int lanes = 1;  // that build() makes, on every rank
  /// Whether a rank sends at most one value, and that to all others: then publish() applies.
  bool publishes = false;
  /// Whether build() divides large vectors otherwise than small ones: else shape.bytes and shape.slotBytes are nothing
  /// to it.
  bool sizeMatters = false;
  /// Of one whose schedules look alike from every rank of a grid that closes in itself: its dimensions, the fastest
  /// first.  Those that look alike all around, or under exchanges of ranks by a bit pattern, need not say so.
  std::vector<int> (*grid)(const Shape& shape) = nullptr;
  /// Of an AllToAll: whether blocks pass through ranks that they are not for.  If they differ in size, build() says
  /// which block an op handles (ScheduleBuilder::value), and every rank has to learn all sizes before.
  bool forwards = false;
  /// Whether steps move several chunks to one rank, which may share messages (Shape::messageBytes).
  bool joins = false;
  /// Whether it is to be used with such messages alone where they are possible: without them it has nothing to win.
  bool mustJoin = false;
  /// Whether every message answers one of the same step, if ranks are a power of two: each rank sends to whom it
  /// receives from.
  bool exchanges = false;
  /// Of an AllReduce: whether each part of the vector is summed up by one rank and copied to the others, so that it may
  /// be rounded on its way (roundResults()); of one with chooseParts, unless groups exchange whole values (Doubling).
  bool sumsOnce = false;
  /// Of an algorithm that goes about several steps in one of several ways each: the cheapest, for Shape::parts.
  std::vector<LevelPart> (*chooseParts)(const Shape& shape, const CostModel& cost) = nullptr;

  /// Whether phases use links of different levels, so that channels that start apart keep all of them busy.
  bool hasLevels() const { return chooseParts != nullptr; }
  /// lacks(), also where there is none.
  const char* missing(const Shape& shape) const { return lacks == nullptr ? nullptr : lacks(shape); }
  bool supports(const Shape& shape) const { return missing(shape) == nullptr; }
};

/// Algorithm::lacks of those that pass on blocks whose sizes the rank in between would have to know.
inline const char* lacksEqualBlocks(const Shape& s) { return s.uneven ? "blocks that are all of one size" : nullptr; }

/// All algorithms, in the order of algorithms/README.md.
std::span<const Algorithm* const> algorithms();
/// nullptr if there is none of that name for the collective.
const Algorithm* findAlgorithm(Collective collective, std::string_view name);

}  // namespace tutti
