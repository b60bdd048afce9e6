// What every chunk of every rank holds while lanes are run without data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/schedule/chunk_numbers.hpp"

namespace tutti {

/// A number for each chunk, one for chunks that share memory in place.
class ChunkValues {
 public:
  /// schedules: schedules[rank] of all ranks; they outlive this.  none: what a chunk has that nothing was written to.
  ChunkValues(const std::vector<Schedule>& schedules, int32_t none) : none_(none) {
    size_t total = 0;
    for (const Schedule& s : schedules) {
      first_.push_back(total);
      numbers_.emplace_back(s);
      total += numbers_.back().size();
    }
    values_.assign(total, none);
  }
  int32_t& of(int rank, Chunk chunk) {
    const auto r = static_cast<size_t>(rank);
    return values_[first_[r] + numbers_[r].of(chunk)];
  }
  int32_t& of(const Schedule& schedule, Chunk chunk) { return of(schedule.rank, chunk); }
  void clear() { std::ranges::fill(values_, none_); }

 private:
  const int32_t none_;
  std::vector<ChunkNumbers> numbers_;
  std::vector<size_t> first_;  // by rank: where its chunks begin in values_
  std::vector<int32_t> values_;
};

}  // namespace tutti
