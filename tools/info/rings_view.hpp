// `tutti-info --rings`: the rings and trees that are found for a machine, or those that TUTTI_GRAPH_FILE gives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/topology/search/channel_plan.hpp"

namespace tutti {

/// A machine of one host, `hosts` times.  Errors: InvalidUsage beyond 4096.
Result<topology::Graph> repeated(const topology::Graph& machine, int hosts);

struct RingsQuestion {
  bool asked = false;
  std::optional<int> hosts;  // unset: as many as the description has.  Else that many of its only host
  std::vector<int> gpus;     // of every host, by number; empty: all
};

struct RingsAnswer {
  topology::Graph graph;
  topology::ChannelPlan plan;
};

/// Errors: InvalidUsage for hosts or GPUs that the machine does not have; what the search, or the graph file, gives.
Result<RingsAnswer> ringsOf(const topology::Graph& machine, const RingsQuestion& question);

}  // namespace tutti
