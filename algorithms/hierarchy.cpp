#include "algorithms/hierarchy.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "algorithms/costs.hpp"
#include "src/base/assert.hpp"
#include "src/base/text.hpp"

namespace tutti {
namespace {

int groupsIn(const std::vector<int>& level) { return *std::max_element(level.begin(), level.end()) + 1; }

/// The groups of `level` within those of `above`, numbered in order of their first rank.
std::vector<int> within(const std::vector<int>& above, const std::vector<int>& level) {
  std::map<std::pair<int, int>, int> numbers;
  std::vector<int> own;
  for (size_t r = 0; r < level.size(); ++r) {
    const int next = static_cast<int>(numbers.size());
    own.push_back(numbers.insert({{above[r], level[r]}, next}).first->second);
  }
  return own;
}

/// How many different groups of `fine` lie in each group of `coarse`.
Hierarchy::Step stepBetween(const std::vector<int>& coarse, const std::vector<int>& fine) {
  std::vector<int> parts(static_cast<size_t>(groupsIn(coarse)));
  std::vector<char> seen(static_cast<size_t>(groupsIn(fine)));
  for (size_t r = 0; r < fine.size(); ++r) {
    char& counted = seen[static_cast<size_t>(fine[r])];
    if (counted == 0) ++parts[static_cast<size_t>(coarse[r])];
    counted = 1;
  }
  return {*std::min_element(parts.begin(), parts.end()), *std::max_element(parts.begin(), parts.end()), false};
}

/// Rounds in which everyone waits for one and is waited for by another take so much longer: they pass on who is late.
constexpr double kLateness = 1.05;

}  // namespace

int Grouping::smallest() const {
  size_t least = groups.front().size();
  for (const auto& list : groups) least = std::min(least, list.size());
  return static_cast<int>(least);
}

int Grouping::largest() const {
  size_t most = 0;
  for (const auto& list : groups) most = std::max(most, list.size());
  return static_cast<int>(most);
}

Hierarchy::Hierarchy(const Shape& shape) {
  const auto n = static_cast<size_t>(shape.nRanks);
  std::vector<int> everyone(n, 0), alone(n);
  std::iota(alone.begin(), alone.end(), 0);
  std::vector<int> above = everyone;
  const auto consider = [&](const std::vector<int>& level, bool keepAlone) {
    TUTTI_ASSERT(level.empty() || level.size() == n);
    if (level.empty()) return;
    std::vector<int> own = within(above, level);
    if (groupsIn(own) == groupsIn(above) || (groupsIn(own) == shape.nRanks && !keepAlone)) return;
    levels_.push_back(own);
    above = std::move(own);
  };
  consider(shape.nodeOf, true);
  const bool severalNodes = !levels_.empty();
  TUTTI_ASSERT(shape.railOf.empty() || shape.railOf.size() == n);
  if (severalNodes) railOf_ = shape.railOf;
  for (const std::vector<int>& level : shape.inner) consider(level, false);
  for (size_t l = 0; l <= levels_.size(); ++l) {
    steps_.push_back(stepBetween(l == 0 ? everyone : levels_[l - 1], l < levels_.size() ? levels_[l] : alone));
  }
  steps_.front().acrossNodes = severalNodes;
}

Grouping Hierarchy::group(const std::vector<int>& members, int level) const {
  Grouping result;
  std::map<int, int> numbers;
  const std::vector<int>& groups = levels_[static_cast<size_t>(level)];
  for (size_t p = 0; p < members.size(); ++p) {
    const int next = static_cast<int>(numbers.size());
    const int g = numbers.insert({groups[static_cast<size_t>(members[p])], next}).first->second;
    if (g == next) result.groups.emplace_back();
    result.groupOf.push_back(g);
    result.indexIn.push_back(static_cast<int>(result.groups[static_cast<size_t>(g)].size()));
    result.groups[static_cast<size_t>(g)].push_back(static_cast<int>(p));
  }
  if (!railOf_.empty()) orderByRails(members, &result);
  return result;
}

void Hierarchy::orderByRails(const std::vector<int>& members, Grouping* grouping) const {
  const auto railAt = [&](int position) {
    return railOf_[static_cast<size_t>(members[static_cast<size_t>(position)])];
  };
  std::map<int, int> shared;  // how many members of a rail every group has
  for (size_t g = 0; g < grouping->groups.size(); ++g) {
    std::map<int, int> own;
    for (const int p : grouping->groups[g]) ++own[railAt(p)];
    if (g == 0) shared = own;
    for (auto& [rail, count] : shared) count = std::min(count, own.contains(rail) ? own.at(rail) : 0);
  }
  for (std::vector<int>& group : grouping->groups) {
    std::map<int, int> left = shared;
    std::vector<int> first, others;
    std::stable_sort(group.begin(), group.end(), [&](int a, int b) { return railAt(a) < railAt(b); });
    for (const int p : group) {
      const auto room = left.find(railAt(p));
      const bool isShared = room != left.end() && room->second > 0;
      if (isShared) --room->second;
      (isShared ? first : others).push_back(p);
    }
    first.insert(first.end(), others.begin(), others.end());
    group = std::move(first);
    for (size_t i = 0; i < group.size(); ++i) {
      grouping->indexIn[static_cast<size_t>(group[i])] = static_cast<int>(i);
    }
  }
}

const char* lacksLevels(const Shape& shape) {
  if (Hierarchy(shape).exists()) return nullptr;
  return "ranks on several nodes, or in groups of several on one (sockets, caches, devices)";
}

std::vector<LevelPart> partsOf(const Shape& shape, const Hierarchy& hierarchy, LevelPart across, LevelPart inside) {
  if (shape.parts.size() == hierarchy.steps().size()) return shape.parts;
  std::vector<LevelPart> parts(hierarchy.steps().size(), inside);
  parts.front() = across;
  return parts;
}

std::vector<LevelPart> directParts(const Shape& shape, const Hierarchy& hierarchy) {
  return partsOf(shape, hierarchy, LevelPart::Direct, LevelPart::Direct);
}

std::string phaseName(const char* what, const Hierarchy& hierarchy, int step) {
  if (step == 0) return cat(what, hierarchy.steps().front().acrossNodes ? " across nodes" : " across groups");
  return hierarchy.depth() == 1 ? cat(what, " inside") : cat(what, " inside, level ", step);
}

void reduceScatterBy(LevelPart part, Blocks& blocks, const Group& group, const Parts& parts) {
  if (part == LevelPart::Circulant) {
    skipReduceScatter(blocks, group, parts, circulantSkips(group.size()));
  } else {
    directReduceScatter(blocks, group, parts);
  }
}

void allGatherBy(LevelPart part, Blocks& blocks, const Group& group, const Parts& parts, int complete) {
  if (part == LevelPart::Circulant) {
    skipAllGather(blocks, group, parts, circulantSkips(group.size()), complete);
  } else {
    directAllGather(blocks, group, parts, complete);
  }
}

double exchangeUs(LevelPart part, const LinearCost& link, int n, double blocks, double bytes, double perMessage) {
  if (n < 2) return 0;
  const double all = (n - 1) * blocks * bytes;
  const double each = std::ceil(blocks / perMessage);  // messages to one
  if (part == LevelPart::Pairwise) return serialUs(link, (n - 1) * each, all);
  if (part != LevelPart::Circulant) return each * burstUs(link, n - 1, all / each);
  const std::vector<int> skips = circulantSkips(n);
  double messages = 0;
  for (size_t k = 0; k + 1 < skips.size(); ++k) messages += std::ceil((skips[k] - skips[k + 1]) * blocks / perMessage);
  return kLateness * serialUs(link, messages, all);
}

TreeNode treeOf(const Group& group, int root) {
  TreeNode node = rooted(binomialTree(wrap(group.me - root, group.size()), group.size()), root, group.size());
  if (node.parent >= 0) node.parent = group.at(node.parent);
  for (int& child : node.children) child = group.at(child);
  return node;
}

}  // namespace tutti
