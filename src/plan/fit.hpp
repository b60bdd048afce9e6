// What fits a request: algorithms, plans and protocols, and of the user's overrides those that it can have.
//
// An override that does not fit is set aside, and the planner chooses by itself; with TUTTI_ALGO_STRICT=1 the request
// is refused.  All of it follows from what the ranks share, so that all of them come to the same.  Reasons say nothing
// of a call's bytes: they are the same for calls of several sizes, so that each has to be told once only.
#pragma once

#include <string>
#include <vector>

#include "src/plan/planner.hpp"

namespace tutti {

/// Why the request cannot go that way; empty: it can.  With as many channels as the overrides ask for.
std::string misfit(const PlanRequest& request, const Algorithm& algorithm);
std::string misfit(const PlanRequest& request, const ReadyPlan& ready);
/// The same of a protocol, inside nodes where ranks share some.
std::string misfit(const PlanRequest& request, const Calibration& calibration, Protocol protocol);

/// The overrides that a request can have, and those that it cannot.
struct Honoured {
  Overrides overrides;
  std::vector<Unmet> unmet;
};
/// Errors: InvalidUsage if some do not fit and TUTTI_ALGO_STRICT is set: each with its reason and with all that would
/// fit this very request instead.
Result<Honoured> honour(const PlanRequest& request, const Calibration& calibration);

/// "allreduce of 8 bytes on 3 ranks, operands in rank order"
std::string describe(const Shape& shape);
/// "TUTTI_ALGO=torus3d does not serve allreduce of 8 bytes on 3 ranks: it needs ..."
std::string sentence(const Unmet& unmet, const Shape& shape);

}  // namespace tutti
