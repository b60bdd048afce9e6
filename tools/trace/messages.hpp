// Sends and receives of a communicator, end beside end.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/job.hpp"

namespace tutti::trace {

struct MessageFindings {
  std::string summary;             // one sentence; "": every message is over on both ends
  std::vector<int> culprits;       // ranks
  bool differ = false;             // the two ends of one see it differently
  std::vector<std::string> waits;  // the ends that are open
};

MessageFindings judgeMessages(const Communicator& communicator);

/// "Send number 4 to rank 1 (count 8, float)"
std::string describeMessage(const Record& record);

}  // namespace tutti::trace
