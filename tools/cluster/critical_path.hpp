// Why a collective took as long as it did: from its end back to its beginning, always to what was waited for.
#pragma once

#include <string>
#include <vector>

#include "tools/cluster/simulate.hpp"

namespace tutti::sim {

/// A stretch of the path.
struct PathPart {
  enum Kind { Launch, Lane, Wire, Latency } kind;
  double begin = 0, end = 0;
  int32_t member = 0;  // of Lane; the sender of Wire and Latency
  int32_t lane = 0;
  int32_t step = -1;     // of Lane: in the lane's program
  int32_t message = -1;  // of Wire and Latency: in Run::sent
};

/// The parts in order of time; without gaps they cover 0 .. Run::end.  Empty if nothing was recorded.
std::vector<PathPart> criticalPath(const Outcome& outcome);

/// Sums by kind, near and far, and the parts that took longest, for people.
std::string describePath(const Network& network, const Outcome& outcome, const std::vector<PathPart>& path);

/// Chrome's and Perfetto's trace events as JSON: a process for each member, a thread for each lane and one for what it
/// has on the wire.  At most `mostMembers` members.  Needs records.
std::string chromeTrace(const Outcome& outcome, int mostMembers);

}  // namespace tutti::sim
