// Snapshots as texts: for people, for Prometheus, and as ncclras prints them.
#pragma once

#include <string>
#include <vector>

#include "tools/top/snapshot.hpp"

namespace tutti::top {

using Snapshot = std::vector<CommunicatorNow>;

/// One line a rank.  before: an earlier one, for rates; empty: there is none.
std::string table(const Snapshot& now, const Snapshot& before);

/// Prometheus's text exposition format, version 0.0.4.
std::string prometheus(const Snapshot& now);

/// What a rank that lags behind the others makes its communicator; as ncclras has it.
enum class Health { Running, Mismatch, Incomplete, Failed };
Health healthOf(const CommunicatorNow& communicator);

/// A report in the manner of ncclras' STATUS.
std::string rasText(const Snapshot& now, bool verbose);
/// The same with SET FORMAT json.
std::string rasJson(const Snapshot& now);

}  // namespace tutti::top
