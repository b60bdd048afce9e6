// Plays a foreign plan symbolically and writes down what happens as our schedules.
#pragma once

#include <string>
#include <vector>

#include "src/import/program.hpp"

namespace tutti::foreign {

/// One schedule per rank, of logical ops, that complete with one slot.  They are not verified yet: whether the plan
/// computes what its collective promises is verify()'s business.
/// notes: added to it is what the plan's own runtime would leave to luck and schedules do not (a rank's buffers used
/// before it has come or after it may have gone), one of each kind.
///
/// Errors: InvalidArgument naming gpu, thread block and step: a place out of range, a chunk that is read before
/// anything has written it, two accesses that nothing orders, pieces of blocks that change places, a message or signal
/// that nobody takes, thread blocks that wait for each other.
Result<std::vector<Schedule>> lower(const Program& program, bool inPlace, std::vector<std::string>* notes);

}  // namespace tutti::foreign
