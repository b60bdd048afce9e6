// What chunks hold in a symbolic run: the second half of the verifier's vocabulary.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/text.hpp"
#include "src/schedule/reduction_tree.hpp"

namespace tutti {

/// Values by number.  A value descends from input chunk `origin` of each of a set of ranks.  Numbers below
/// nRanks * chunksPerRank are the inputs themselves; further ones are made by reductions and never change.
class SymbolicValues {
 public:
  static constexpr int32_t kNone = -1;

  SymbolicValues(int nRanks, int chunksPerRank)
      : nRanks_(nRanks), chunksPerRank_(std::max(chunksPerRank, 1)), words_(static_cast<size_t>(nRanks + 63) / 64) {}

  int32_t input(int rank, int chunk) const { return rank * chunksPerRank_ + chunk; }
  int origin(int32_t v) const { return isInput(v) ? v % chunksPerRank_ : made(v).origin; }
  int count(int32_t v) const { return isInput(v) ? 1 : made(v).count; }
  /// Of a value whose contributors were combined in rank order; else an empty interval.
  RankInterval interval(int32_t v) const {
    return isInput(v) ? RankInterval{v / chunksPerRank_, v / chunksPerRank_ + 1} : made(v).interval;
  }

  /// left op right, whose contributors must be disjoint.
  int32_t combine(int32_t left, int32_t right) {
    const size_t at = bits_.size();
    bits_.resize(at + words_, 0);
    addTo(at, left);
    addTo(at, right);
    const RankInterval a = interval(left);
    const RankInterval b = interval(right);
    const bool inOrder = a.size() > 0 && b.size() > 0 && a.hi == b.lo;
    made_.push_back({origin(left), count(left) + count(right), inOrder ? RankInterval{a.lo, b.hi} : RankInterval{}});
    return nRanks_ * chunksPerRank_ + static_cast<int32_t>(made_.size()) - 1;
  }

  /// The first rank that contributed to both; -1 if none did.
  int commonRank(int32_t a, int32_t b) const {
    if (isInput(b)) std::swap(a, b);
    if (isInput(a)) return contains(b, a / chunksPerRank_) ? a / chunksPerRank_ : -1;
    const uint64_t* bitsOfA = bitsOf(a);
    const uint64_t* bitsOfB = bitsOf(b);
    for (size_t w = 0; w < words_; ++w) {
      if (const uint64_t both = bitsOfA[w] & bitsOfB[w]; both != 0) {
        return static_cast<int>(w * 64) + std::countr_zero(both);
      }
    }
    return -1;
  }

  bool contains(int32_t v, int rank) const {
    if (isInput(v)) return v / chunksPerRank_ == rank;
    return (bitsOf(v)[rank / 64] >> (rank % 64) & 1) != 0;
  }
  /// "chunk 2 of ranks 0-3,5".
  std::string describe(int32_t v) const {
    std::string text = cat("chunk ", origin(v), " of ", count(v) == 1 ? "rank " : "ranks ");
    const char* separator = "";
    for (int r = 0; r < nRanks_; ++r) {
      if (!contains(v, r)) continue;
      int last = r;
      while (last + 1 < nRanks_ && contains(v, last + 1)) ++last;
      text += last == r ? cat(separator, r) : cat(separator, r, "-", last);
      separator = ",";
      r = last;
    }
    return text;
  }

 private:
  struct Made {
    int origin;
    int count;
    RankInterval interval;
  };
  bool isInput(int32_t v) const { return v < nRanks_ * chunksPerRank_; }
  const Made& made(int32_t v) const { return made_[static_cast<size_t>(v - nRanks_ * chunksPerRank_)]; }
  const uint64_t* bitsOf(int32_t v) const {
    return bits_.data() + static_cast<size_t>(v - nRanks_ * chunksPerRank_) * words_;
  }
  void addTo(size_t at, int32_t v) {
    if (isInput(v)) {
      const auto rank = static_cast<size_t>(v / chunksPerRank_);
      bits_[at + rank / 64] |= uint64_t{1} << (rank % 64);
      return;
    }
    const uint64_t* from = bitsOf(v);
    for (size_t w = 0; w < words_; ++w) bits_[at + w] |= from[w];
  }

  const int nRanks_;
  const int chunksPerRank_;
  const size_t words_;
  std::vector<Made> made_;
  std::vector<uint64_t> bits_;  // words_ per made value
};

}  // namespace tutti
