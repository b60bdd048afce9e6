// Proof that a set of schedules, one per rank, does what its collective promises, before any byte moves.
//
// All ranks are executed symbolically.  A chunk's value is the set of ranks that contributed to it and the input chunk
// it descends from, so that a lost, doubled or misplaced contribution has a name.  FIFOs hold `slots` messages; a
// schedule is a Kahn network, so if one order of execution deadlocks, all do.
#pragma once

#include <string>
#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

struct VerifyOptions {
  int slots = 1;         // messages of room per FIFO, direction and lane
  bool ordered = false;  // also require that operands are combined in rank order (non-commutative operators)
  bool tree = false;     // also require that they are combined along the tree of reduction_tree.hpp (implies ordered)
};

/// schedules[r] is rank r's.  "" when all is well, else a sentence with rank, lane, op and what is wrong:
/// a deadlock (who waits for whom), a read of a chunk never written, a reduction of chunks that do not belong together,
/// a contribution doubled, a write to Input, an index out of range, a message left in a FIFO, a wrong final value,
/// a chunk shared between lanes.
std::string verify(const std::vector<Schedule>& schedules, const VerifyOptions& options = {});

}  // namespace tutti
