// Peer arithmetic, kept pure: numbers in, numbers out, nothing about schedules.
#pragma once

#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

/// index modulo n, never negative.
inline int wrap(int index, int n) { return ((index % n) + n) % n; }
inline bool isPowerOfTwo(int n) { return n > 0 && (n & (n - 1)) == 0; }
/// The largest power of two <= n, and the smallest >= n; n >= 1.
int floorPowerOfTwo(int n);
int ceilPowerOfTwo(int n);
/// Rounds in which one becomes n by doubling: 0 for n = 1.
int ceilLog2(int n);
/// The lowest set bit of v > 0, as a number.
inline int lowBit(int v) { return v & -v; }

/// first, first + 1, ..., end - 1.
std::vector<int> range(int first, int end);

/// Pieces of at most a slot into which a message is cut: 1 to `most`.
int piecesOf(size_t bytes, size_t slotBytes, int most);

/// Distances n = s[0] > s[1] > ... > 1 along which n blocks are halved and doubled, rounding up: 7 4 2 1.
/// Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024.
std::vector<int> circulantSkips(int n);
/// The same with powers of two below n: 7 4 2 1, 9 8 4 2 1 (where circulant has 9 5 3 2 1).
std::vector<int> powerSkips(int n);

/// One member's place in a tree; parent is -1 at the root.
struct TreeNode {
  int parent = -1;
  std::vector<int> children;
};
/// Binomial tree over 0..n-1 with root 0: the parent of v is v without its lowest bit, so the subtree of child c is
/// c .. c + lowBit(c) - 1.  Children are ordered largest subtree first.
TreeNode binomialTree(int v, int n);
/// Binary tree over 0..n-1 in which odd members are leaves; root 0 has one child.  Depth at most ceilLog2(n).
TreeNode binaryTree(int v, int n);
/// The second of the two trees: one in which even members are leaves (odd n: all but one), so that who forwards in one
/// tree mostly only receives in the other.  Sanders, Speck, Träff, Parallel Computing 35(12), 2009.
TreeNode secondBinaryTree(int v, int n);
/// The member without a parent in secondBinaryTree.
int secondBinaryRoot(int n);

/// The tree's members renamed v -> (v + root) mod n, so that member 0 is rank `root`.
TreeNode rooted(TreeNode node, int root, int n);
/// A rank's place in one of two binary trees that both hang from `root`: the root has one child in each, and the other
/// ranks form a binaryTree (which = 0) or secondBinaryTree (1).
TreeNode doubleTree(int rank, int root, int n, int which);

/// Edges of the binomial tree over 0..n-1 in the order of a parallel aggregated tree: each step is a list of children
/// with the same lowBit (the distance to their parents), parents come before their children.  First the far edges of
/// the top `aggregate` subtrees, level by level; then all those subtrees side by side, edge by edge, depth first.
/// aggregate is a power of two; steps: ceilLog2(n) if aggregate >= n, n-1 (for n a power of two) if it is 1.
std::vector<std::vector<int>> patSteps(int n, int aggregate);
/// `aggregate` for blocks of shape.bytes: as many as fit in one slot.
int subtreesAbreast(const Shape& shape);

/// Round-optimal broadcast of nBlocks blocks from member 0 to members 1..n-1 in nBlocks - 1 + ceilLog2(n) rounds: in
/// each round every member receives at most one block from the member `skip` behind it and sends one to the member
/// `skip` ahead, the same skip for all.
/// Träff, "Round-optimal n-block broadcast schedules in logarithmic time", arXiv:2312.11236, 2023.
struct CirculantBroadcast {
  CirculantBroadcast(int nMembers, int numBlocks);
  size_t skipIndex(int round) const { return (firstSkip + static_cast<size_t>(round)) % skips.size(); }
  int skip(int round) const { return skips[skipIndex(round)]; }
  /// receives(v)[round]: the block that v receives then, or -1.  Every block once; none for member 0.
  std::vector<int> receives(int v) const;

  int n;
  int nBlocks;
  int nRounds;
  size_t firstSkip = 0;
  std::vector<int> skips;  // ascending, below n
};

/// n as a product of `dims` factors, each >= 2, as equal as possible, ascending; empty if there is none.
std::vector<int> nearCube(int n, int dims);

/// All ranks, node after node, so that a ring leaves every node once.
std::vector<int> ringOrder(const Shape& shape);
/// A rank's neighbours in a chain that starts at the root and goes node after node.
TreeNode chainFromRoot(const Shape& shape);

}  // namespace tutti
