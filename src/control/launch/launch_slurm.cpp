// Slurm's srun: ranks meet at rank 0's host, at a port made from the job's and step's numbers.
#include <unistd.h>

#include "src/control/launch/launch.hpp"

namespace tutti::launch {
namespace {

/// The end of the first host expression: the comma outside brackets, or the end.
size_t firstExpressionEnd(const std::string& list) {
  int depth = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') ++depth;
    if (list[i] == ']') --depth;
    if (list[i] == ',' && depth == 0) return i;
  }
  return list.size();
}

}  // namespace

std::string firstSlurmHost(const std::string& nodeList) {
  const std::string expression = nodeList.substr(0, firstExpressionEnd(nodeList));
  std::string host;
  for (size_t i = 0; i < expression.size();) {
    if (expression[i] != '[') {
      if (expression[i] == ']') return {};
      host += expression[i++];
      continue;
    }
    const size_t close = expression.find(']', i);
    if (close == std::string::npos) return {};
    const std::string ranges = expression.substr(i + 1, close - i - 1);
    const std::string first = ranges.substr(0, ranges.find_first_of("-,"));
    if (first.empty() || first.find_first_not_of("0123456789") != std::string::npos) return {};
    host += first;  // with its leading zeros
    i = close + 1;
  }
  return host;
}

bool singleSlurmHost(const std::string& nodeList) {
  return !nodeList.empty() && nodeList.find_first_of(",[") == std::string::npos;
}

Found slurm(Deadline deadline) {
  // A batch script has SLURM_PROCID too, but is no step of srun's and runs alone.
  const bool step = !text("SLURM_STEP_ID").empty() || !text("SLURM_STEPID").empty() ||
                    !text("SLURM_STEP_NUM_TASKS").empty() || !text("SLURM_LAUNCH_NODE_IPADDR").empty();
  if (text("SLURM_PROCID").empty() || !step) return std::optional<LaunchInfo>();
  const char* sizeName = text("SLURM_STEP_NUM_TASKS").empty() ? "SLURM_NTASKS" : "SLURM_STEP_NUM_TASKS";
  FixedPlace fixed;
  fixed.launcher = "slurm";
  TUTTI_ASSIGN(fixed.place, place("slurm", "SLURM_PROCID", sizeName));
  if (fixed.place.nRanks > 1) {
    const std::string jobVariable = text("SLURM_JOB_ID").empty() ? "SLURM_JOBID" : "SLURM_JOB_ID";
    TUTTI_ASSIGN(const int64_t job, number(jobVariable.c_str(), 0, int64_t{1} << 40));
    const char* stepVariable = text("SLURM_STEP_ID").empty() ? "SLURM_STEPID" : "SLURM_STEP_ID";
    int64_t stepId = 0;
    if (!text(stepVariable).empty()) {
      TUTTI_ASSIGN(stepId, number(stepVariable, 0, int64_t{1} << 40));
    }
    const char* listVariable = text("SLURM_STEP_NODELIST").empty() ? "SLURM_JOB_NODELIST" : "SLURM_STEP_NODELIST";
    const std::string nodes = text(listVariable), launcher = text("SLURM_LAUNCH_NODE_IPADDR");
    const std::string first = firstSlurmHost(nodes);
    if (!nodes.empty() && first.empty())
      return invalidUsage(ErrorCode::LauncherVariables, listVariable, "='", nodes, "' is not a list of nodes");
    if (first.empty() && launcher.empty()) {
      return invalidUsage(ErrorCode::LauncherVariables,
                          "slurm: neither SLURM_STEP_NODELIST nor SLURM_LAUNCH_NODE_IPADDR is set");
    }
    // Rank 0 runs on the first node of the step; srun itself may have been called elsewhere, but often was not.
    fixed.oneHost = singleSlurmHost(nodes);
    if (fixed.oneHost) fixed.hosts.push_back("127.0.0.1");
    if (!first.empty()) fixed.hosts.push_back(first);
    if (!launcher.empty()) fixed.hosts.push_back(launcher);
    constexpr int64_t kFirstPort = 20'000, kPorts = 10'000;  // below the range that systems give out by themselves
    fixed.port = static_cast<int>(kFirstPort + (job * 31 + stepId) % kPorts);
    fixed.identity = cat("job ", job, " step ", stepId, " nodes ", nodes, " restart ", text("SLURM_RESTART_COUNT"),
                         " user ", geteuid());
  }
  TUTTI_ASSIGN(const LaunchInfo info, meetAt(fixed, deadline));
  return std::optional(info);
}

}  // namespace tutti::launch
