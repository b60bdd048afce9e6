// The phases that several algorithms are made of, over any group of ranks.
//
// A group's members are addressed by position; parts[p] lists the blocks that belong to position p: where they end in
// a reduce-scatter, where they come from in an allgather.  Every member passes the same parts.  A step in which
// several blocks travel alternates send and receive, so that one message of room per link is enough; it is a step of
// the builder, so that they may share messages.
#pragma once

#include <vector>

#include "algorithms/blocks.hpp"
#include "algorithms/patterns.hpp"

namespace tutti {

struct Group {
  std::vector<int> ranks;
  int me = 0;  // this rank's position

  int size() const { return static_cast<int>(ranks.size()); }
  /// The rank at a position, modulo the size.
  int at(int position) const;
};
/// Positions are ranks.
Group everyone(const Shape& shape);
/// The members in this order; `rank` is one of them.
Group groupOf(std::vector<int> ranks, int rank);

using Parts = std::vector<std::vector<int>>;
/// parts[p] = {p}, and parts[p] = {rank at p}.
Parts partPerPosition(int n);
Parts partPerRank(const Group& group);
/// Blocks of the position that has most.
size_t longest(const Parts& parts);

enum class Arrival { Store, Reduce };
/// Blocks `sent` to one rank and `received` from another, alternating: a step.
void exchange(Blocks& blocks, int to, const std::vector<int>& sent, int from, const std::vector<int>& received,
              Arrival arrival);

/// Reduce-scatter: position p ends with the sum over the group of the blocks of parts[p].
/// n-1 steps to the next neighbour.
void ringReduceScatter(Blocks& blocks, const Group& group, const Parts& parts);
/// Everything in one step, each part straight to its owner.
void directReduceScatter(Blocks& blocks, const Group& group, const Parts& parts);
/// One step per skip; circulantSkips or powerSkips.
void skipReduceScatter(Blocks& blocks, const Group& group, const Parts& parts, const std::vector<int>& skips);
/// log2(n) steps between partners a power of two apart; n must be a power of two.
void halvingReduceScatter(Blocks& blocks, const Group& group, const Parts& parts);

/// Allgather: every position ends with all blocks; the mirror images of the above.
void ringAllGather(Blocks& blocks, const Group& group, const Parts& parts);
/// `complete`: a position that has all blocks already and gets none; -1 for nobody.
void directAllGather(Blocks& blocks, const Group& group, const Parts& parts, int complete = -1);
void skipAllGather(Blocks& blocks, const Group& group, const Parts& parts, const std::vector<int>& skips,
                   int complete = -1);
void doublingAllGather(Blocks& blocks, const Group& group, const Parts& parts);

/// Allreduce of `list` by exchanging whole values, ceil(log2 n) steps; members beyond a power of two hand their values
/// to a partner first and get the result last.
void doublingAllReduce(Blocks& blocks, const Group& group, const std::vector<int>& list);

/// Blocks down a tree from its root, or their sums over all members up to the root, a message at a time.  node is in
/// rank numbers.
void treeBroadcast(Blocks& blocks, const TreeNode& node, const std::vector<int>& list);
void treeReduce(Blocks& blocks, const TreeNode& node, const std::vector<int>& list);

}  // namespace tutti
