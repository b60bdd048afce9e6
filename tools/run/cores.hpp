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

/// Processors of every rank.  Ranks share cores where they are a multiple of them: bound, they hand a core on to each
/// other, where the scheduler would move them between cores.  Empty if they are not bound: Bind::None, or more ranks
/// than cores and some cores would have more of them than others, which a program that computes would wait for.
std::vector<std::vector<int>> placeRanks(const std::vector<Core>& cores, int nRanks, Bind bind);

/// "0,4-6" -> {0, 4, 5, 6}; what cannot be read is left out.
std::vector<int> parseCpuList(const std::string& text);

}  // namespace tutti::run
