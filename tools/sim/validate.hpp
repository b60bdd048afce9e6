// The simulator beside what others have measured.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti::sim {

/// A table for each published set, errors of fitted and of held-out points apart.  `fit`: first look for better
/// constants with the fitted points, and print them.  Only sets whose name has `name` in it.  Errors: those of
/// simulations; InvalidUsage if there is no such set.
Result<std::string> validate(bool fit, const std::string& name);

}  // namespace tutti::sim
