#include "src/parallel/tree.hpp"

#include <algorithm>
#include <bit>

namespace tutti::parallel {
namespace {

void gather(LeafRange node, LeafRange run, std::vector<LeafRange>& found) {
  if (run.end <= node.begin || node.end <= run.begin) return;
  if (run.begin <= node.begin && node.end <= run.end) {
    found.push_back(node);
    return;
  }
  const int64_t middle = node.begin + leftLeaves(node.end - node.begin);
  gather({node.begin, middle}, run, found);
  gather({middle, node.end}, run, found);
}

}  // namespace

int64_t leftLeaves(int64_t n) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n - 1))); }

std::vector<LeafRange> subtreesOf(int64_t n, LeafRange run) {
  std::vector<LeafRange> found;
  if (run.begin < run.end) gather({0, n}, run, found);
  return found;
}

bool isSubtree(int64_t n, LeafRange range) {
  const std::vector<LeafRange> found = subtreesOf(n, range);
  return found.size() == 1;
}

std::vector<size_t> leafVectors(int64_t nLeaves, LeafRange run) {
  std::vector<size_t> most;
  for (int64_t leaf = run.begin; leaf < run.end; ++leaf) {
    const size_t with = subtreesOf(nLeaves, {run.begin, leaf}).size() + 1;  // those that are finished, and the new one
    most.push_back(most.empty() ? with : std::max(most.back(), with));
  }
  return most;
}

}  // namespace tutti::parallel
