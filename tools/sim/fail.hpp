// What the loss of a link, a port or a rank costs.
#pragma once

#include "tools/sim/ask.hpp"

namespace tutti::sim {

/// "link", "link:N", "nic", "nic:N", "rank", "rank:R": the time before and after, for each algorithm asked about.
/// Without a number: the link that is loaded most, port of rank 0, the last rank.  A link loses one of its cables; a
/// port hands its traffic to the next best one; without a rank the others go on as a smaller communicator.
/// Errors: InvalidUsage; InvalidArgument if what is left cannot do it.
Result<std::string> fail(const Cluster& cluster, const Asked& asked, const std::string& what);

}  // namespace tutti::sim
