// Buffers of all ranks of one collective, with inputs that tell every element of every rank apart, and what must come
// out.
//
// Elements are 32-bit unsigned integers; reductions are sums modulo 2^32, so they are exact in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/exec/lane_run.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti::test {

/// What rank `rank` contributes as its element number `i`.
uint32_t contribution(int rank, size_t i);

class Vectors {
 public:
  /// count: elements of the whole vector for AllReduce, Broadcast and Reduce, else of one rank's block.  The schedules
  /// are borrowed.
  Vectors(const std::vector<Schedule>& schedules, size_t count);

  /// The memory of a rank's call; stays where it is.  Buffers that the rank has not are null.
  CallBuffers buffers(int rank);
  /// "" or the first element of the rank's buffers that is not what the collective promises; also whether it wrote
  /// outside of its output or into its input.
  std::string check(int rank) const;

 private:
  struct Memory {
    std::vector<uint32_t> input, output;  // each between guards; in place, input is empty
    size_t inputElements = 0;
    size_t outputElements = 0;
    size_t inputOffset = 0;  // of the input in the output, in place
  };
  uint32_t expected(int rank, size_t i) const;
  void fill(const Schedule& schedule, Memory* memory) const;
  std::string checkInput(int rank, const Memory& memory) const;
  bool inPlace(const Schedule& schedule) const;

  const std::vector<Schedule>& schedules_;
  const size_t count_;
  std::vector<uint32_t> sums_;  // of all ranks' contributions, where the collective reduces
  std::vector<Memory> memory_;
};

}  // namespace tutti::test
