// One graph from those that several processes or hosts made.
#pragma once

#include <vector>

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// Hosts with the same hash are one host: their parts are matched by kind and bus id (or number, or name), and what
/// only one of the graphs has is added.  Hosts without a hash stay apart, as do hosts of different hashes.  Of a part
/// that several graphs have, the first one's figures count, but what the first left open is filled in.
/// Errors: InvalidArgument if the same bus id means different kinds of devices.
Result<Graph> merge(const std::vector<Graph>& graphs);

}  // namespace tutti::topology
