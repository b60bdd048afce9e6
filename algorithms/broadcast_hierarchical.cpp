// Hierarchical broadcast over any number of levels.  With shards: the root gives each member of its innermost group
// one,
//   every rail does the same with its shard and a level less, and the members of every group share what they have.
//   Without (part Tree): one member of every group gets the whole, with a level less, and passes it down a binomial
//   tree. steps per level 2 (direct), 1 + ceil(log2 g) (circulant), ceil(log2 g) (tree); across m groups 1, 2 ceil(log2
//   m), ceil(log2 m).  With shards the root's group sends S to every other group, S/s from each of s members. With s
//   members in the smallest of a level's groups there are s shards; further members only take part inside. Limits:
//   needs several nodes, or groups in one.  For machines whose inner links are faster than the outer ones. Karonis et
//   al., "Exploiting hierarchy in parallel computer networks to optimize collective operation performance", IPDPS 2000
//   (trees of trees); shards as in Jia et al., arXiv:1807.11205, 2018.
#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/rails.hpp"

namespace tutti::broadcast_hierarchical {
namespace {

constexpr size_t kWholeBytes = 16 * 1024;  // up to here steps cost more than bytes
constexpr LevelPart kParts[] = {LevelPart::Tree, LevelPart::Direct, LevelPart::Circulant};

int shardsAt(const Hierarchy& h, const std::vector<LevelPart>& parts, size_t step) {
  if (step == 0) return parts[0] == LevelPart::Circulant ? h.steps()[0].largest : 1;
  return parts[step] == LevelPart::Tree ? 1 : h.steps()[step].smallest;
}

std::vector<LevelPart> partsFor(const Shape& shape, const Hierarchy& h) {
  const bool whole = shape.bytes <= kWholeBytes;
  return partsOf(shape, h, LevelPart::Tree, whole ? LevelPart::Tree : LevelPart::Direct);
}

class Builder {
 public:
  explicit Builder(const Shape& shape)
      : me_(shape.rank),
        h_(shape),
        parts_(partsFor(shape, h_)),
        nChunks_(countChunks()),
        b_(shape, nChunks_),
        blocks_(Blocks::ofBroadcast(b_, shape, nChunks_)) {}

  Schedule build(const Shape& shape) {
    run(everyone(shape).ranks, shape.root, h_.depth(), 0, nChunks_);
    blocks_.settleAll();
    return b_.finish();
  }

 private:
  int countChunks() const {
    int chunks = 1;
    for (size_t step = 0; step < parts_.size(); ++step) chunks *= shardsAt(h_, parts_, step);
    return chunks;
  }

  /// Chunks [first, first + count) from the member at position `root` to all, over the outermost `levels` levels.
  void run(const std::vector<int>& members, int root, int levels, int first, int count) {
    if (levels == 0) return across(groupOf(members, me_), root, first, count);
    const Neighbourhood near = neighbourhood(h_, members, levels - 1, me_);
    if (parts_[levels] == LevelPart::Tree) {
      whole(members, near, root, levels, first, count);
    } else {
      shards(members, near, root, levels, first, count);
    }
  }

  void whole(const std::vector<int>& members, const Neighbourhood& near, int root, int levels, int first, int count) {
    const Grouping& grouping = near.grouping;
    std::vector<int> leaders;
    for (int g = 0; g < static_cast<int>(grouping.groups.size()); ++g) {
      leaders.push_back(members[near.carrier(g, grouping.indexIn[root])]);
    }
    const int leader = grouping.indexIn[root] % near.local.size();
    if (near.local.me == leader) run(leaders, grouping.groupOf[root], levels - 1, first, count);
    b_.phase(phaseName("broadcast", h_, levels));
    const TreeNode node = treeOf(near.local, leader);
    treeBroadcast(blocks_, node, range(first, first + count));
  }

  void shards(const std::vector<int>& members, const Neighbourhood& near, int root, int levels, int first, int count) {
    const Grouping& grouping = near.grouping;
    const int nShards = grouping.smallest();
    const int each = count / nShards;
    Parts shares(near.local.size());
    for (int c = 0; c < nShards * each; ++c) shares[c / each].push_back(first + c);
    const bool withRoot = near.own == grouping.groupOf[root];
    if (withRoot) scatter(near.local, grouping.indexIn[root], shares, levels);
    if (near.local.me < nShards) {
      run(near.sameIndex(members), grouping.groupOf[root], levels - 1, first + near.local.me * each, each);
    }
    b_.phase(phaseName("allgather", h_, levels));
    allGatherBy(parts_[levels], blocks_, near.local, shares, withRoot ? grouping.indexIn[root] : -1);
  }

  /// The member at position `root` gives every other its share.
  void scatter(const Group& group, int root, const Parts& shares, int step) {
    b_.phase(phaseName("scatter", h_, step)).step();
    if (group.me != root) {
      for (int c : shares[group.me]) blocks_.recv(group.at(root), c);
      b_.endStep();
      return;
    }
    for (size_t row = 0; row < longest(shares); ++row) {
      for (int p = 0; p < group.size(); ++p) {
        if (p != root && row < shares[p].size()) blocks_.send(group.at(p), shares[p][row]);
      }
    }
    b_.endStep();
  }

  void across(const Group& group, int root, int first, int count) {
    if (parts_[0] == LevelPart::Circulant) {
      Parts shares;
      for (int c = 0; c < count; ++c) shares.push_back({first + c});
      scatter(group, root, shares, 0);
      b_.phase(phaseName("allgather", h_, 0));
      allGatherBy(LevelPart::Circulant, blocks_, group, shares, root);
      return;
    }
    b_.phase(phaseName("broadcast", h_, 0));
    TreeNode node = treeOf(group, root);
    if (parts_[0] == LevelPart::Direct) {
      node = {group.me == root ? -1 : group.at(root), {}};
      for (int d = 1; d < group.size() && group.me == root; ++d) node.children.push_back(group.at(root + d));
    }
    treeBroadcast(blocks_, node, range(first, first + count));
  }

  int me_;
  Hierarchy h_;
  std::vector<LevelPart> parts_;
  int nChunks_;
  ScheduleBuilder b_;
  Blocks blocks_;
};

struct Spent {
  double critical = 0;
  double work = 0;  // by a rank of the step, on average
};

/// One step of a vector of `bytes` in `chunks` chunks, between n.
Spent stepUs(LevelPart part, bool across, const LinearCost& link, int n, int shards, double chunks, double bytes,
             double sliceBytes) {
  const double rounds = ceilLog2(n);
  if (part == LevelPart::Tree) {
    return {pipelineUs(link, rounds, bytes, sliceBytes, rounds),
            meanWorkUs(link, n, (n - 1) * chunks, (n - 1) * bytes, n / 2.0)};
  }
  if (across && part == LevelPart::Direct) {
    return {burstUs(link, n - 1, (n - 1) * bytes), meanWorkUs(link, n, n - 1, (n - 1) * bytes, n - 1)};
  }
  const double share = bytes / shards, each = chunks / shards;
  const double gather = exchangeUs(part, link, n, each, share / each, 1);
  const double scatter = each * burstUs(link, shards - 1, (shards - 1) * share / each);
  return {scatter + gather, scatter / n + gather};
}

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& parts) {
  double bytes = double(s.bytes), chunks = 1;
  for (size_t step = 0; step < parts.size(); ++step) chunks *= shardsAt(h, parts, step);
  Spent all;
  for (size_t step = parts.size(); step-- > 0;) {
    const Hierarchy::Step& at = h.steps()[step];
    const int shards = shardsAt(h, parts, step);
    const Spent spent =
        stepUs(parts[step], step == 0, at.link(cost), at.largest, shards, chunks, bytes, double(s.slotBytes));
    all = {all.critical + spent.critical, all.work + spent.work};
    bytes /= shards;
    chunks /= shards;
  }
  return elapsedUs(cost, all.critical, all.work);
}

}  // namespace

extern constinit const Algorithm kBroadcastHierarchical = {
    .collective = Collective::Broadcast,
    .name = "hierarchical",
    .summary = "across groups per shard, then inside, at every level; several nodes, sockets, caches",
    .lacks = lacksLevels,
    .costUs = levelsUs<partsUs, partsFor>,
    .build = [](const Shape& s) { return Builder(s).build(s); },
    .sizeMatters = true,
    .joins = true,
    .chooseParts = chooseLevelParts<partsUs, kParts, kParts>,
};

}  // namespace tutti::broadcast_hierarchical
