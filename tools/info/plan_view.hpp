// `tutti-info --plan`: what the planner would do for a call on a described job, without one.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti {

struct PlanQuestion {
  std::string collective;
  std::string bytes = "1M";  // as TUTTI's sizes are written
  int ranks = 2;
  int hosts = 1;          // ranks are spread over them in blocks, as evenly as they go
  std::string transport;  // inside a host, by its name; empty: the first of the table
  bool threads = false;   // the ranks of a host are threads of one process
  bool direct = false;    // all buffers are registered
  int cores = 0;          // per host; 0: this machine's, or what the topology has
  std::string way;        // of CUDA ranks (deviceExecutorName); empty: ranks on host memory
  /// What each host is, as for --topology: a file or a line; empty: as this machine, all ranks of it alike near.  Then
  /// ranks = 0 is one for each GPU, or NUMA node where there are none, and the file may have several hosts.
  std::string topology;
  bool json = false;  // the answer for programs
};

/// The table, as TUTTI_EXPLAIN prints it, or the same as JSON.  Uses this machine's calibration file if there is one,
/// and TUTTI_ALGO and its sisters.  Errors: InvalidUsage with what is wrong with the question.
Result<std::string> explainPlan(const PlanQuestion& question);

}  // namespace tutti
