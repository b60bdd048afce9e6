// Which processors each rank may run on.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::run {

/// A core is the set of its hardware threads, by number.
using Core = std::vector<int>;

/// Cores of the set that this process may use, in the order of their first processor (from /sys; where that does not
/// say, every processor is a core).
std::vector<Core> allowedCores();

/// Processors of every rank; empty if ranks are not bound (Bind::None, or fewer cores than ranks).
std::vector<std::vector<int>> placeRanks(const std::vector<Core>& cores, int nRanks, Bind bind);

/// "0,4-6" -> {0, 4, 5, 6}; what cannot be read is left out.
std::vector<int> parseCpuList(const std::string& text);

}  // namespace tutti::run
