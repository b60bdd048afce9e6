// The calls of a job on a described cluster: what each would take if all ranks came at once.
#pragma once

#include "tools/trace/timeline.hpp"

namespace tutti::trace {

struct Simulated {
  std::vector<SimulatedCall> calls;
  int leftOut = 0;  // whose algorithm the simulator does not have, v forms, and communicators of another size
};

/// cluster: as tutti-sim has it; it must have as many ranks as the communicators whose calls it is asked for.
/// Errors: those of the description; InvalidUsage: no communicator has as many ranks.
Result<Simulated> simulateCalls(const Job& job, const std::string& cluster);

}  // namespace tutti::trace
