// How near to each other two cores are now.  A hypervisor moves the cores of a virtual machine, often when they wake,
// and calls of all libraries alike take two or three times as long where they are far apart.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::perf {

/// Ranks 0 and 1 pass a cache line between each other.
class Placement {
 public:
  /// In memory that both map, zeros at first.
  struct Words {
    alignas(128) std::atomic<uint32_t> ping;
    alignas(128) std::atomic<uint32_t> pong;
  };
  explicit Placement(Words* words) : words_(words) {}

  /// Rank 0: microseconds of a line one way, the least of several tries; 0: not known, as others have the cores and it
  /// takes longer than 2 ms.  Rank 1, which must look as often: 0.  They wait for each other.
  double look(int rank);

 private:
  double ask();
  void answer();

  Words* words_;
  uint32_t begin_ = 0;  // of this look, in the words' values
};

}  // namespace tutti::perf
