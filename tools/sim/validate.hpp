// The simulator beside what others have measured.
#pragma once

#include <string>

#include "src/base/status.hpp"
#include "tools/sim/errors.hpp"

namespace tutti::sim {

/// A table for each published set, errors of fitted and of held-out points apart.  `fit`: first look for better
/// constants with the fitted points, and print them.  Only sets whose name has `name` in it.  Errors: those of
/// simulations; InvalidUsage if there is no such set.
Result<std::string> validate(bool fit, const std::string& name);

/// Of all sets that NCCL's model is compared with, from specification only; with or without those in doubt.
Result<RangeErrors> ncclErrors(bool doubted);

}  // namespace tutti::sim
