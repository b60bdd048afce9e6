// The one binary tree of sums.h: of n leaves the left child has the largest power of two below n.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/parallel/launch.hpp"

namespace tutti::parallel {

struct LeafRange {
  int64_t begin, end;
  bool operator==(const LeafRange&) const = default;
};

/// Leaves of the left child of a tree of n >= 2 leaves.
int64_t leftLeaves(int64_t n);
/// Whether the range is all that hangs below one node of the tree of n leaves.
bool isSubtree(int64_t n, LeafRange range);
/// The fewest subtrees of the tree of n leaves that make up `run`, in order.
std::vector<LeafRange> subtreesOf(int64_t n, LeafRange run);

template <class T>
void addInto(T* into, const T* from, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] += from[i];
}

/// parts [n][count]: the tree's sum over n parts ends in part 0; the others are scratch.
template <class T>
void treeSum(T* parts, int64_t n, size_t count) {
  if (n < 2) return;
  const int64_t left = leftLeaves(n);
  T* right = parts + static_cast<size_t>(left) * count;
  treeSum(parts, left, count);
  treeSum(right, n - left, count);
  addInto(parts, right, count);
}

/// As above in the device's memory.
template <class T>
void treeSum(Device& device, T* parts, int64_t n, size_t count) {
  if (n < 2) return;
  const int64_t left = leftLeaves(n);
  T* right = parts + static_cast<size_t>(left) * count;
  treeSum(device, parts, left, count);
  treeSum(device, right, n - left, count);
  addVector<T>(device, parts, right, count);
}

/// The sum of node [begin, end), given the sums of subtrees that make it up, which lie in the device's memory; scratch
/// may be the operands.
template <class T>
T* combineSubtrees(Device& device, LeafRange node, const std::vector<LeafRange>& have, const std::vector<T*>& sums,
                   size_t count) {
  for (size_t i = 0; i < have.size(); ++i) {
    if (have[i] == node) return sums[i];
  }
  const int64_t middle = node.begin + leftLeaves(node.end - node.begin);
  T* left = combineSubtrees(device, {node.begin, middle}, have, sums, count);
  addVector<T>(device, left, combineSubtrees(device, {middle, node.end}, have, sums, count), count);
  return left;
}

/// Sums of subtreesOf(nLeaves, run), given the leaves of the run [run.end - run.begin][count].
template <class T>
std::vector<Array<T>> subtreeSums(Device& device, const T* leaves, size_t count, int64_t nLeaves, LeafRange run) {
  std::vector<Array<T>> sums;
  for (const LeafRange& node : subtreesOf(nLeaves, run)) {
    const size_t elements = static_cast<size_t>(node.end - node.begin) * count;
    Array<T> copy(device, elements, Array<T>::Any);
    copyBytes(device, copy.data(), leaves + static_cast<size_t>(node.begin - run.begin) * count, elements * sizeof(T));
    treeSum(device, copy.data(), node.end - node.begin, count);
    sums.push_back(std::move(copy));
  }
  return sums;
}

/// How many vectors a LeafCounter holds at most, after each of the run's leaves.
std::vector<size_t> leafVectors(int64_t nLeaves, LeafRange run);

/// Leaves that come one after another, and of which only finished subtrees are kept.  `T* leaf` is added in order.
template <class T>
class LeafCounter {
 public:
  /// Leaves `run` of a tree of nLeaves will come, as vectors of `count` in the device's memory.
  LeafCounter(Device& device, int64_t nLeaves, LeafRange run, size_t count)
      : device_(&device), nLeaves_(nLeaves), run_(run), count_(count), next_(run.begin) {}
  /// Takes in part [offset, offset + n) of the next leaf; all parts of a leaf come before advance().
  void add(const T* leaf, size_t offset, size_t n) {
    if (fresh_ == nullptr) fresh_ = take();
    copyBytes(*device_, fresh_ + offset, leaf, n * sizeof(T));
  }
  /// The leaf is complete.
  void advance() {
    parts_.push_back({{next_, next_ + 1}, fresh_ != nullptr ? fresh_ : take()});
    fresh_ = nullptr;
    ++next_;
    while (parts_.size() >= 2) {
      Part& left = parts_[parts_.size() - 2];
      const Part right = parts_.back();
      if (!isSubtree(nLeaves_, {left.range.begin, right.range.end})) break;
      addVector<T>(*device_, left.sum, right.sum, count_);
      left.range.end = right.range.end;
      spare_.push_back(right.sum);
      parts_.pop_back();
    }
  }
  bool complete() const { return next_ == run_.end; }
  /// Sums of subtreesOf(nLeaves, run), when complete.
  std::vector<const T*> sums() const {
    std::vector<const T*> all;
    for (const Part& part : parts_) all.push_back(part.sum);
    return all;
  }
  /// Ready for the next step's leaves.
  void reset() {
    for (const Part& part : parts_) spare_.push_back(part.sum);
    parts_.clear();
    next_ = run_.begin;
  }
  size_t bytes() const { return memory_.size() * count_ * sizeof(T); }

 private:
  struct Part {
    LeafRange range;
    T* sum;
  };
  T* take() {
    if (spare_.empty()) {
      memory_.emplace_back(*device_, count_, Array<T>::Any);
      spare_.push_back(memory_.back().data());
    }
    T* one = spare_.back();
    spare_.pop_back();
    zeroBytes(*device_, one, count_ * sizeof(T));
    return one;
  }

  Device* device_;
  int64_t nLeaves_;
  LeafRange run_;
  size_t count_;
  int64_t next_;
  T* fresh_ = nullptr;
  std::vector<Part> parts_;
  std::vector<T*> spare_;
  std::vector<Array<T>> memory_;
};

}  // namespace tutti::parallel
