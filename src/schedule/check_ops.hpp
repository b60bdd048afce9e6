// What can be said about a schedule without running it: the first half of the verifier.
#pragma once

#include <string>
#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

/// "rank 2 lane 0 op 5 (send out[1] -> 3)".
std::string describeOp(const Schedule& schedule, int lane, int opIndex);

/// "" or a sentence: the schedules do not belong together, or a shape, index or peer is out of range, or an op has no
/// meaning (no operand, a token with data, a reduction where the collective has no operator, ...).
std::string checkShapesAndOps(const std::vector<Schedule>& schedules);

/// "" or a sentence: two lanes that work on the same bytes share a chunk which one of them writes.
std::string checkLanesDisjoint(const Schedule& schedule);

}  // namespace tutti
