// `tutti-sim --count`: what every rank sends and receives, beside the textbook's formula.
#pragma once

#include "tools/sim/ask.hpp"

namespace tutti::sim {

/// Errors: those of trafficOf().
Result<std::string> countBytes(const Network& network, const Asked& asked, bool json);

}  // namespace tutti::sim
