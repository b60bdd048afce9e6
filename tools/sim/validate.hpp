// The simulator beside what others have measured.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti::sim {

/// A table for each published set, errors of fitted and of held-out points apart.  `fit`: first look for better
/// constants with the fitted points, and print them.  Errors: those of simulations.
Result<std::string> validate(bool fit);

}  // namespace tutti::sim
