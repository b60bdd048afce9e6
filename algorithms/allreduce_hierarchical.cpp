// Hierarchical allreduce over any number of levels: reduce-scatter inside the innermost groups, the same on every rail
//   with a level less, at the end allreduce across the outermost groups; then allgather inside, level by level.
//   With s members in the smallest of a level's groups there are s shards, and the members with index i of all groups
//   are the rail of shard i; members beyond s hold no shard and only take part inside.  A level may do without shards
//   (part Tree): its groups' first members reduce for all, for messages that are too small to be divided.
//   steps 2 per level (direct) and across m groups 2 (direct), ceil(log2 m) (doubling) or 2 ceil(log2 m) (circulant);
//   bytes sent per rank inside 2(g-1)/g of what reaches the level, which is S/s1/s2... after levels of s1, s2, ...
//   Limits: needs several nodes, or groups in one.  For machines whose inner links are faster than the outer ones.
//   Jia et al., "Highly scalable deep learning training system with mixed-precision", arXiv:1807.11205, 2018.
#include <cmath>

#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/rails.hpp"

namespace tutti::allreduce_hierarchical {
namespace {

constexpr size_t kWholeShardBytes = 16 * 1024;  // up to here steps cost more than bytes
constexpr LevelPart kAcross[] = {LevelPart::Doubling, LevelPart::Direct, LevelPart::Circulant};
constexpr LevelPart kInside[] = {LevelPart::Direct, LevelPart::Circulant, LevelPart::Tree};

int shardsAt(const Hierarchy& h, const std::vector<LevelPart>& parts, size_t step) {
  return parts[step] == LevelPart::Tree ? 1 : h.steps()[step].smallest;
}

/// Chunks that a shard is divided into across the outermost groups.
int chunksAcross(const Hierarchy& h, const std::vector<LevelPart>& parts) {
  return parts[0] == LevelPart::Doubling ? 1 : h.steps()[0].largest;
}

std::vector<LevelPart> partsFor(const Shape& shape, const Hierarchy& h) {
  size_t shards = 1;
  for (size_t step = 1; step < h.steps().size(); ++step) shards *= static_cast<size_t>(h.steps()[step].smallest);
  const bool whole = shape.bytes / shards <= kWholeShardBytes;
  return partsOf(shape, h, whole ? LevelPart::Doubling : LevelPart::Circulant, LevelPart::Direct);
}

class Builder {
 public:
  explicit Builder(const Shape& shape)
      : me_(shape.rank),
        h_(shape),
        parts_(partsFor(shape, h_)),
        nChunks_(countChunks()),
        b_(shape, nChunks_),
        blocks_(Blocks::ofAllReduce(b_, nChunks_)) {}

  Schedule build(const Shape& shape) {
    run(everyone(shape).ranks, h_.depth(), 0, nChunks_);
    blocks_.settleAll();
    return b_.finish();
  }

 private:
  int countChunks() const {
    int chunks = chunksAcross(h_, parts_);
    for (size_t step = 1; step < parts_.size(); ++step) chunks *= shardsAt(h_, parts_, step);
    return chunks;
  }

  /// Allreduce of chunks [first, first + count) between `members`, over the outermost `levels` levels.
  void run(const std::vector<int>& members, int levels, int first, int count) {
    if (levels == 0) return across(groupOf(members, me_), first, count);
    const Neighbourhood near = neighbourhood(h_, members, levels - 1, me_);
    const Group& local = near.local;
    const LevelPart part = parts_[levels];
    const int shards = part == LevelPart::Tree ? 1 : near.grouping.smallest();
    const int each = count / shards;
    Parts shares(local.size());
    for (int c = 0; c < shards * each; ++c) shares[c / each].push_back(first + c);

    b_.phase(phaseName(part == LevelPart::Tree ? "reduce" : "reduce-scatter", h_, levels));
    const TreeNode node = treeOf(local, 0);
    if (part == LevelPart::Tree) {
      treeReduce(blocks_, node, shares[0]);
    } else {
      reduceScatterBy(part, blocks_, local, shares);
    }
    if (local.me < shards) run(near.sameIndex(members), levels - 1, first + local.me * each, each);
    b_.phase(phaseName(part == LevelPart::Tree ? "broadcast" : "allgather", h_, levels));
    if (part == LevelPart::Tree) {
      treeBroadcast(blocks_, node, shares[0]);
    } else {
      allGatherBy(part, blocks_, local, shares);
    }
  }

  void across(const Group& rail, int first, int count) {
    b_.phase(phaseName("allreduce", h_, 0));
    if (parts_[0] == LevelPart::Doubling) {
      doublingAllReduce(blocks_, rail, {first});
      return;
    }
    Parts shares;
    for (int c = 0; c < count; ++c) shares.push_back({first + c});
    reduceScatterBy(parts_[0], blocks_, rail, shares);
    allGatherBy(parts_[0], blocks_, rail, shares);
  }

  int me_;
  Hierarchy h_;
  std::vector<LevelPart> parts_;
  int nChunks_;
  ScheduleBuilder b_;
  Blocks blocks_;
};

double acrossUs(LevelPart part, const LinearCost& link, const CostModel& cost, int m, double bytes, double perMessage) {
  if (part == LevelPart::Doubling) {
    const double rounds = ceilLog2(floorPowerOfTwo(m)), folding = isPowerOfTwo(m) ? 0 : 1;
    return (rounds + 2 * folding) * link(bytes) + (rounds + folding) * cost.reduceUs(bytes);
  }
  return 2 * exchangeUs(part, link, m, 1, bytes / m, perMessage) + cost.reduceUs(bytes * (m - 1) / m);
}

double insideUs(LevelPart part, const LinearCost& link, const CostModel& cost, int g, double chunks, double bytes,
                double perMessage) {
  if (part == LevelPart::Tree) {  // bytes: the whole, as there is one shard
    const double messages = std::ceil(chunks / perMessage);
    return ceilLog2(g) * (2 * messages * link(bytes / messages) + cost.reduceUs(bytes));
  }
  return 2 * exchangeUs(part, link, g, chunks, bytes / chunks, perMessage) + cost.reduceUs((g - 1) * bytes);
}

double partsUs(const Shape& s, const CostModel& cost, const Hierarchy& h, const std::vector<LevelPart>& parts) {
  double us = 0, workUs = 0, bytes = double(s.bytes), chunks = chunksAcross(h, parts);
  double busy = 1;  // the part of all ranks that have something to do
  for (size_t step = 1; step < parts.size(); ++step) chunks *= shardsAt(h, parts, step);
  const double perMessage = double(chunksPerMessage(s, static_cast<int>(chunks)));
  const auto add = [&](double stepUs) {
    us += stepUs;
    workUs += busy * stepUs;
  };
  for (size_t step = parts.size() - 1; step > 0; --step) {
    bytes /= shardsAt(h, parts, step);  // of a shard
    chunks /= shardsAt(h, parts, step);
    add(insideUs(parts[step], h.steps()[step].link(cost), cost, h.steps()[step].largest, chunks, bytes, perMessage));
    if (parts[step] == LevelPart::Tree) busy /= h.steps()[step].largest;
  }
  add(acrossUs(parts[0], h.steps()[0].link(cost), cost, h.steps()[0].largest, bytes, perMessage));
  return elapsedUs(cost, us, workUs);
}

}  // namespace

extern constinit const Algorithm kAllReduceHierarchical = {
    .collective = Collective::AllReduce,
    .name = "hierarchical",
    .summary = "inside groups, across them per shard, inside again, at every level; several nodes, sockets, caches",
    .lacks = lacksLevels,
    .costUs = levelsUs<partsUs, partsFor>,
    .build = [](const Shape& s) { return Builder(s).build(s); },
    .sizeMatters = true,
    .joins = true,
    .sumsOnce = true,
    .chooseParts = chooseLevelParts<partsUs, kAcross, kInside>,
};

}  // namespace tutti::allreduce_hierarchical
