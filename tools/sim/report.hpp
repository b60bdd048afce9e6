// One simulation, for people.
#pragma once

#include "tools/sim/ask.hpp"

namespace tutti::sim {

struct ReportOptions {
  int links = 0;  // so many of the most loaded
  bool json = false;
  bool path = false;
  std::string traceFile;
  int traceMembers = 64;
};

/// Time, bandwidth, and what was asked for besides; also writes the trace.
/// Errors: those of the simulation; InvalidUsage if the file cannot be written.
Result<std::string> report(const Network& network, const Asked& asked, const ReportOptions& options);

/// Of all algorithms of a collective those that work on the cluster; of those asked for by name all, so that what one
/// lacks is said.
std::vector<const Algorithm*> fitting(const Network& network, const Asked& asked);

/// The beginning of an object: what was asked of which cluster.
std::string jsonHead(const Network& network, const Asked& asked);

/// Errors: InvalidUsage.
Status writeFile(const std::string& path, const std::string& text);

}  // namespace tutti::sim
