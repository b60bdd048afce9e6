// A job's calls as a timeline for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/job.hpp"

namespace tutti::trace {

/// A call as the simulator has it.
struct SimulatedCall {
  size_t communicator = 0;  // of Job::communicators
  std::string name;
  int64_t startNs = 0;  // on the one clock: when the last rank entered it
  double us = 0;
};

/// A process for each that ranks lie in, with a track for each rank's collectives, and its messages as intervals of
/// their own, as they may overlap; and one process for what is simulated.
std::string timeline(const Job& job, const std::vector<SimulatedCall>& simulated);

}  // namespace tutti::trace
