// What a set of schedules costs, by walking them: for plans that come without a formula.
#pragma once

#include <vector>

#include "src/plan/linear_cost.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti {

/// Microseconds until the last rank is done, if all begin at once; never less than what the ranks of a core have to do
/// in turn.  schedules[r] is rank r's, for a call of this shape (rank ignored); they complete, as the verifier says.
/// Where chunks are larger than a slot, two slices are walked and the others take as long as the second.
double walkUs(const std::vector<Schedule>& schedules, const Shape& shape, const CostModel& cost);

}  // namespace tutti
