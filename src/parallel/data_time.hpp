// What data-parallel messages take.
#pragma once

#include "src/parallel/links.hpp"

namespace tutti::parallel {

/// Of a step.
struct DataTime {
  double bytes = 0;   // sent by a rank
  double ms = 0;      // of all messages
  double hostMs = 0;  // of ms: the host's, which no computation hides
  double kept = 0;    // bytes of values that a rank holds more
};

/// bytes: of the layout (layoutCost), which has this library's gathers and sums.
DataTime dataTime(const tuttiModelShape_t& model, const tuttiMachine_t& machine, const tuttiLayout_t& l, double bytes);

}  // namespace tutti::parallel
