#include "algorithms/leaders.hpp"

#include <algorithm>
#include <cmath>

#include "algorithms/costs.hpp"

namespace tutti {
namespace {

/// The binomial tree of the own group, from its leader, and the blocks of its subtrees.
class LeaderTree {
 public:
  LeaderTree(const Neighbourhood& near, const Parts& parts)
      : near_(near), parts_(parts), node_(binomialTree(near.local.me, near.local.size())) {}

  bool isLeader() const { return node_.parent < 0; }
  int me() const { return near_.local.me; }
  int parent() const { return near_.local.at(node_.parent); }
  int rankOf(int child) const { return near_.local.at(child); }
  /// Largest subtree first.
  const std::vector<int>& children() const { return node_.children; }
  /// Blocks of the members in the subtree of a member of the group.
  std::vector<int> inside(int member) const { return blocks(member, true); }
  /// All others.
  std::vector<int> outside(int member) const { return blocks(member, false); }

 private:
  std::vector<int> blocks(int member, bool inside) const {
    const std::vector<int>& group = near_.grouping.groups[near_.own];
    const int size = near_.local.size();
    const int end = member == 0 ? size : std::min(size, member + lowBit(member));
    std::vector<char> isInside(parts_.size(), 0);
    for (int i = member; i < end; ++i) isInside[group[i]] = 1;
    std::vector<int> list;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if ((isInside[p] != 0) == inside) list.insert(list.end(), parts_[p].begin(), parts_[p].end());
    }
    return list;
  }

  const Neighbourhood& near_;
  const Parts& parts_;
  TreeNode node_;
};

using BlocksOf = std::vector<int> (LeaderTree::*)(int) const;

/// A member takes what its children have for it, and gives its parent the same.  The leader gives nothing.
void fromChildren(Blocks& blocks, const LeaderTree& tree, BlocksOf of, Arrival arrival) {
  for (size_t i = tree.children().size(); i-- > 0;) {
    const int child = tree.children()[i];
    exchange(blocks, 0, {}, tree.rankOf(child), (tree.*of)(child), arrival);
  }
  if (!tree.isLeader()) exchange(blocks, tree.parent(), (tree.*of)(tree.me()), 0, {}, arrival);
}

/// The other way round.
void toChildren(Blocks& blocks, const LeaderTree& tree, BlocksOf of, Arrival arrival) {
  if (!tree.isLeader()) exchange(blocks, 0, {}, tree.parent(), (tree.*of)(tree.me()), arrival);
  for (const int child : tree.children()) exchange(blocks, tree.rankOf(child), (tree.*of)(child), 0, {}, arrival);
}

}  // namespace

const char* lacksLeaders(const Shape& shape) {
  const Hierarchy h(shape);
  for (size_t step = 1; step < h.steps().size(); ++step) {
    if (h.steps()[step].largest > 1) return nullptr;
  }
  return "several ranks on some node, or in some group on one (sockets, caches, devices)";
}

std::vector<LevelPart> leaderParts(const Shape& shape, const Hierarchy& hierarchy) {
  return partsOf(shape, hierarchy, LevelPart::Direct, LevelPart::Tree);
}

Leaders leadersOf(const Grouping& grouping, const std::vector<int>& members, const Parts& parts) {
  Leaders leaders;
  for (const std::vector<int>& group : grouping.groups) {
    leaders.ranks.push_back(members[group.front()]);
    std::vector<int>& all = leaders.parts.emplace_back();
    for (const int p : group) all.insert(all.end(), parts[p].begin(), parts[p].end());
  }
  return leaders;
}

void LeaderWalk::allGather(const std::vector<int>& members, const Parts& parts, int levels) {
  if (levels == 0) {
    builder.phase(phaseName("allgather", hierarchy, 0));
    return allGatherBy(chosen[0], blocks, groupOf(members, rank), parts);
  }
  const Neighbourhood near = neighbourhood(hierarchy, members, levels - 1, rank);
  const LeaderTree tree(near, parts);
  builder.phase(phaseName("gather", hierarchy, levels));
  fromChildren(blocks, tree, &LeaderTree::inside, Arrival::Store);
  if (tree.isLeader()) {
    const Leaders leaders = leadersOf(near.grouping, members, parts);
    allGather(leaders.ranks, leaders.parts, levels - 1);
  }
  builder.phase(phaseName("broadcast", hierarchy, levels));
  toChildren(blocks, tree, &LeaderTree::outside, Arrival::Store);
}

// The mirror image: a subtree's sums for all others' blocks go up, all others' sums for its own blocks come down.
void LeaderWalk::reduceScatter(const std::vector<int>& members, const Parts& parts, int levels) {
  if (levels == 0) {
    builder.phase(phaseName("reduce-scatter", hierarchy, 0));
    return reduceScatterBy(chosen[0], blocks, groupOf(members, rank), parts);
  }
  const Neighbourhood near = neighbourhood(hierarchy, members, levels - 1, rank);
  const LeaderTree tree(near, parts);
  builder.phase(phaseName("reduce", hierarchy, levels));
  fromChildren(blocks, tree, &LeaderTree::outside, Arrival::Reduce);
  if (tree.isLeader()) {
    const Leaders leaders = leadersOf(near.grouping, members, parts);
    reduceScatter(leaders.ranks, leaders.parts, levels - 1);
  }
  builder.phase(phaseName("scatter", hierarchy, levels));
  toChildren(blocks, tree, &LeaderTree::inside, Arrival::Reduce);
}

LeadersCost leadersCost(const Shape& s, const Hierarchy& h, const std::vector<LevelPart>& chosen,
                        const CostModel& cost) {
  const double all = s.nRanks, bytes = double(s.bytes), per = double(chunksPerMessage(s, 1));
  LeadersCost sum;
  double carried = 1;  // blocks of a member
  double busy = 1;     // the part of all ranks that are members
  for (size_t step = h.steps().size(); step-- > 1;) {
    const LinearCost& link = h.steps()[step].link(cost);
    const double g = h.steps()[step].largest, rounds = ceilLog2(h.steps()[step].largest);
    double messages = 0;
    for (double subtree = 1; subtree < g; subtree *= 2) messages += std::ceil(subtree * carried / per);
    const double up = serialUs(link, messages, (g - 1) * carried * bytes);
    const double down = serialUs(link, std::ceil(all / per), all * bytes);
    sum.criticalUs += up + rounds * down;
    sum.workUs += busy * (up / g + (g - 1) / g * down);
    sum.mostReduced += (rounds * all + g * carried) * bytes;
    sum.meanReduced += busy * ((g - 1) / g * all + carried) * bytes;
    carried *= g;
    busy /= g;
  }
  const int m = h.steps()[0].largest;
  const double across = exchangeUs(chosen[0], h.steps()[0].link(cost), m, carried, bytes, per);
  sum.criticalUs += across;
  sum.workUs += busy * across;
  sum.mostReduced += (m - 1) * carried * bytes;
  sum.meanReduced += busy * (m - 1) * carried * bytes;
  return sum;
}

}  // namespace tutti
