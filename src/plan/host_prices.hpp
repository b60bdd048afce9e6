// A request's messages in the terms of estimates: prices of the host's links by a calibration, and levels of ranks.
#pragma once

#include "src/plan/planner.hpp"
#include "src/sim/estimate.hpp"

namespace tutti {

/// Memory that a schedule touches on the fullest node beside the ranks' buffers.
struct FurtherMemory {
  double roomBytes = 0;  // of endpoints that messages pass through
  double readBytes = 0;  // that are in the caches of two cores
};

/// Prices of a request's messages with one protocol inside nodes.
sim::Prices pricesOf(const PlanRequest& request, const Calibration& calibration, Protocol protocol,
                     const FurtherMemory& further = {});

/// Levels of a request's ranks: those of its machine, or its nodes.
sim::Levels levelsOf(const PlanRequest& request);

}  // namespace tutti
