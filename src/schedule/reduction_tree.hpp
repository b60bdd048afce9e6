// The one binary tree along which reproducible reductions combine the ranks' values.
//
//   tree(lo, hi) = tree(lo, mid) op tree(mid, hi)   with mid - lo the largest power of two below hi - lo
//   tree(r, r+1) = the value of rank r
//
// For 6 ranks: ((0 1) (2 3)) (4 5).  An aligned block of 2^k ranks is always one subtree, so recursive doubling and
// halving follow the tree without extra messages.  Depth ceil(log2 n), hence an error bound of O(log n) for sums.
#pragma once

#include <bit>
#include <compare>

#include "src/base/assert.hpp"

namespace tutti {

/// Ranks [lo, hi), hi > lo, that are combined as a subtree.
struct RankInterval {
  int lo = 0;
  int hi = 0;
  auto operator<=>(const RankInterval&) const = default;
  int size() const { return hi - lo; }
};

/// Where tree(lo, hi) splits; its size is at least 2.
inline int treeSplit(RankInterval node) {
  TUTTI_ASSERT_CMP(node.size(), >=, 2);
  return node.lo + static_cast<int>(std::bit_floor(static_cast<unsigned>(node.size() - 1)));
}

/// Whether the interval is a node of tree(0, nRanks).
inline bool isTreeNode(RankInterval interval, int nRanks) {
  RankInterval node{0, nRanks};
  while (node != interval) {
    if (node.size() < 2) return false;
    const int mid = treeSplit(node);
    if (interval.hi <= mid) {
      node.hi = mid;
    } else if (interval.lo >= mid) {
      node.lo = mid;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace tutti
