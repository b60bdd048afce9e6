// Ranks on a described machine, for `tutti-info --plan --topo`.
#pragma once

#include "src/plan/machine_levels.hpp"
#include "tools/info/plan_view.hpp"

namespace tutti {

struct DescribedJob {
  topology::Graph graph;
  topology::LevelGroups groups;
  int nRanks = 0;
  int nHosts = 1;
  int ranksPerHost = 1;  // on the fullest
  int cores = 0;         // of the host that has least; 0: not said
  /// [rank]: of its GPU; empty where ranks are not on GPUs.
  std::vector<std::string> busIds;
  int computeCapability = 0;  // times 10, the least of these GPUs; 0: not said
};

/// One rank for each GPU of every host, or for each NUMA node where it has none; with question.ranks as many, in blocks
/// of hosts, over these places in turn.
/// Errors: those of reading the topology; InvalidUsage for hosts and ranks that do not go with it.
Result<DescribedJob> describeJob(const PlanQuestion& question);

}  // namespace tutti
