// Bytes that a call sends between hosts, as the interface counts them and as the plan predicts them.
#pragma once

#include <string>
#include <vector>

#include "perf/ways/ways.hpp"

namespace tutti::perf {

/// Bytes of one call, of each host: what it sent over the interface, headers and all, and what its ranks' plans send to
/// other hosts.
struct CableBytes {
  std::vector<double> counted, planned;  // [host]
};

/// Calls the way a few times while nothing else is sent.  Collective; the same on all ranks.  interface: of every host;
/// where it has no counter the program ends.
CableBytes cableBytes(const Ranks& w, const Cell& cell, const Way& way, const std::string& interface);

}  // namespace tutti::perf
