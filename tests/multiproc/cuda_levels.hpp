// Hierarchical algorithms on CUDA ranks of several hosts: what crosses device links and what crosses the network,
// beside what the schedules say, byte for byte.
#pragma once

#include <functional>
#include <string>

#include "tests/support/gpu.hpp"

namespace tutti::test {

/// reach: whether a rank's device uses this one's memory.  nHosts: each with as many ranks.  With TUTTI_ALGO as
/// askForLevels() sets it, before the communicator is made.  Needs TUTTI_DEVICE=cuda.  "" or what was wrong.
std::string checkLevels(const Rank& r, const GpuRank& own, int nHosts, const std::function<bool(int peer)>& reach);
/// All collectives that have hierarchical algorithms by those, in this process.
void askForLevels();

}  // namespace tutti::test
