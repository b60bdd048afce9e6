// Who comes late to collectives.
#pragma once

#include <string>

#include "tools/trace/job.hpp"

namespace tutti::trace {

/// "rank 2 came last to 83 of 100 calls, 1.2 ms after the first on average"; "": no rank to most of them, or there are
/// fewer than ten of which all ranks' times are exact.
std::string whoIsLate(const Job& job, const Communicator& communicator);

}  // namespace tutti::trace
