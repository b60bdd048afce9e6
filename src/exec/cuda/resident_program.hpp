// A plan as the resident executor's blocks read it: plain data in device memory (kernels/walk_program.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "src/exec/kernels/walk_program.hpp"
#include "src/exec/plan.hpp"

namespace tutti {

/// Where the ends of one rank's links are: of each peer and lane one in this rank's memory and one in the peer's.
/// Addresses are as this rank's device sees them.  A value; the memory is somebody else's.
struct ResidentEnds {
  kernels::EndLayout layout;
  int rank = 0;
  int nRanks = 1;
  int lanes = 0;                  // of each pair of ranks
  std::vector<std::byte*> bases;  // by rank: its ends, [peer][lane]
  std::vector<bool> lends;        // by rank: whether it can read this rank's buffers where they lie

  /// Bytes of one rank's ends.
  size_t bytes() const;
  kernels::WalkLink link(int peer, int lane) const;
};

/// The image of a program that will lie at `base`; its size does not depend on that.  The plan needs no endpoints:
/// links are known by rank.  Errors: InvalidUsage where an op or a lane has more parts than a block can hold.
Result<std::vector<std::byte>> residentProgram(const Plan& plan, const ResidentEnds& ends, std::byte* base);

}  // namespace tutti
