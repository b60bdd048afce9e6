// The levels at which ranks are near each other, as hierarchical algorithms walk them.
//
// Level 0 are the nodes (or, on one node, the coarsest groups in it), further levels divide the groups of the one
// before.  An algorithm works from the inside out, level by level: inside each of the innermost groups, then between
// those members of different groups that do the same there (a rail), which is the same problem with a level less; at
// the end across the outermost groups; and what it has to do on the way back, from the outside in.  Groups may differ
// in size.
#pragma once

#include <span>

#include "algorithms/phases.hpp"
#include "src/cost/linear_cost.hpp"

namespace tutti {

/// Members of a list by their groups: groups[g] are positions in the list; groups in order of their first.  In a group
/// members stand ascending, or where rails are known so that members of one rail have the same index in all groups: the
/// rails that all groups have come first.
struct Grouping {
  std::vector<std::vector<int>> groups;
  std::vector<int> groupOf;  // of each position
  std::vector<int> indexIn;  // of each position, in its group
  int smallest() const;
  int largest() const;
};

class Hierarchy {
 public:
  /// Levels that separate nobody, or divide no group of the level before, are left out; those in which everyone is
  /// alone too, but for nodes.
  explicit Hierarchy(const Shape& shape);

  int depth() const { return static_cast<int>(levels_.size()); }
  /// Whether there is anything to do at several levels: several nodes, or groups in a node.
  bool exists() const { return !levels_.empty(); }
  Grouping group(const std::vector<int>& members, int level) const;

  /// How many take part in a step: steps()[0] is across the outermost groups, steps()[j] inside groups of level j-1,
  /// between their parts of level j (ranks, in the innermost).
  struct Step {
    int smallest = 1;
    int largest = 1;
    bool acrossNodes = false;
    const LinearCost& link(const CostModel& cost) const { return acrossNodes ? cost.inter : cost.intra; }
  };
  const std::vector<Step>& steps() const { return steps_; }

 private:
  void orderByRails(const std::vector<int>& members, Grouping* grouping) const;

  std::vector<std::vector<int>> levels_;  // [level][rank]
  std::vector<int> railOf_;               // [rank], or empty
  std::vector<Step> steps_;
};

/// Algorithm::lacks of those that need levels.
const char* lacksLevels(const Shape& shape);

/// The parts of the shape, if they fit the hierarchy; else `inside` for every step but the first, and `across` for
/// that.
std::vector<LevelPart> partsOf(const Shape& shape, const Hierarchy& hierarchy, LevelPart across, LevelPart inside);

/// The cheapest combination: one of `across` for the first step, one of `inside` for each of the others.  Of equal ones
/// the first.
template <class Cost>
std::vector<LevelPart> cheapestParts(const Hierarchy& hierarchy, std::span<const LevelPart> across,
                                     std::span<const LevelPart> inside, Cost costUs) {
  std::vector<size_t> at(hierarchy.steps().size(), 0);
  std::vector<LevelPart> best, parts(at.size());
  double bestUs = 0;
  for (size_t step = 0; step < at.size();) {
    for (size_t i = 0; i < at.size(); ++i) parts[i] = i == 0 ? across[at[i]] : inside[at[i]];
    const double us = costUs(parts);
    if (best.empty() || us < bestUs) best = parts, bestUs = us;
    for (step = 0; step < at.size(); ++step) {  // count on
      if (++at[step] < (step == 0 ? across : inside).size()) break;
      at[step] = 0;
    }
  }
  return best;
}

/// partsOf with one message to everyone as the way at all levels.
std::vector<LevelPart> directParts(const Shape& shape, const Hierarchy& hierarchy);

/// Algorithm::costUs of an algorithm that goes by partsFor(shape, hierarchy), for what partsUs() says that costs.
template <auto partsUs, auto partsFor>
double levelsUs(const Shape& s, const CostModel& cost) {
  const Hierarchy h(s);
  return partsUs(s, cost, h, partsFor(s, h));
}
/// Its Algorithm::chooseParts: the cheapestParts by partsUs().
template <auto partsUs, const auto& across, const auto& inside>
std::vector<LevelPart> chooseLevelParts(const Shape& s, const CostModel& cost) {
  const Hierarchy h(s);
  return cheapestParts(h, across, inside, [&](const auto& parts) { return partsUs(s, cost, h, parts); });
}

/// What the phases of a group are called in a schedule: "reduce-scatter across nodes", "... inside, level 2".
std::string phaseName(const char* what, const Hierarchy& hierarchy, int step);

/// Reduce-scatter, or its mirror image, by one part (Direct or Circulant).
void reduceScatterBy(LevelPart part, Blocks& blocks, const Group& group, const Parts& parts);
void allGatherBy(LevelPart part, Blocks& blocks, const Group& group, const Parts& parts, int complete = -1);
/// The cost of that, without reductions.  Each of n members has `blocks` blocks of `bytes`; a message holds up to
/// `perMessage` blocks.
double exchangeUs(LevelPart part, const LinearCost& link, int n, double blocks, double bytes, double perMessage);

/// The tree over a group with root at position `root`, in rank numbers; this rank's place in it.
TreeNode treeOf(const Group& group, int root);

}  // namespace tutti
