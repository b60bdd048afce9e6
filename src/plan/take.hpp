// Which of the candidates that were compared a call takes: the cheapest, or one that is better by what estimates do not
// see.
#pragma once

#include "src/plan/planner.hpp"

namespace tutti {

/// How many times the cheapest a choice may cost that is better by what estimates do not see.
double mostOfBetter(const PlanRequest& request);

/// Takes the cheapest of the table, the first of equals, or a better one; nothing if none is usable.  handOverUs: until
/// a core that one rank leaves has the next.
void takeCheapest(const PlanRequest& request, double handOverUs, Choice* choice);

}  // namespace tutti
