// Finds accesses to one chunk that nothing orders, so that a plan which only works by luck is refused.
//
// Every thread block has a vector clock (Mattern, "Virtual time and global states of distributed systems", 1989): what
// it knows to have happened in each of the others.  Whatever makes one wait for another hands the clock on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/import/program.hpp"

namespace tutti::foreign {

using Clock = std::vector<uint32_t>;  // by thread block; empty: knows nothing

/// clock := what is known by either.
void join(Clock* clock, const Clock& other);

class OrderCheck {
 public:
  /// The program must outlive it.
  OrderCheck(const Program& program, size_t nCells);

  const Clock& clock(int thread) const { return clocks_[static_cast<size_t>(thread)]; }
  void learn(int thread, const Clock& other) { join(&clocks_[static_cast<size_t>(thread)], other); }
  /// What others may learn of all that the thread block has done up to now.
  Clock publish(int thread);

  /// Whether the thread block knows that the rank has begun: before that, its buffers are still its caller's.
  bool hasBegun(int thread, int rank) const;

  /// The thread block's step touches the cell.  "" or who has touched it without being waited for.
  std::string read(int thread, int step, size_t cell);
  std::string write(int thread, int step, size_t cell);
  /// When all have ended: "" or who has touched the cell without the rank that owns it knowing, which therefore may
  /// hand its buffers back too early.
  std::string atEnd(int rank, size_t cell);

 private:
  struct Access {
    int thread = -1;
    int step = 0;
    uint32_t time = 0;
  };
  struct History {
    Access write;
    std::vector<Access> reads;  // since then, the last of each thread block
  };
  bool known(int thread, const Access& access) const {
    return access.thread < 0 || clocks_[static_cast<size_t>(thread)][static_cast<size_t>(access.thread)] >= access.time;
  }
  std::string describe(const Access& access, const char* verb) const;
  Access now(int thread, int step) const {
    return {thread, step, clocks_[static_cast<size_t>(thread)][static_cast<size_t>(thread)]};
  }

  const Program& program_;
  std::vector<Clock> clocks_;
  std::vector<Clock> ends_;  // by rank, what its thread blocks know together; made when first asked for
  std::vector<History> cells_;
};

}  // namespace tutti::foreign
