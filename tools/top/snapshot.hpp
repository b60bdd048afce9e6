// What running jobs say of themselves: read from the sockets of the processes that host communicators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace tutti::top {

struct RankNow {
  int rank = 0, pid = 0;
  bool answered = false;  // in the time it had
  bool left = false;      // it has destroyed the communicator
  int64_t silentMs = 0;   // for how long its host has answered some rank nothing; 0: it answers
  uint64_t calls = 0, bytes = 0, collectives = 0;
  std::string doing;  // "": between calls
  int64_t doingNs = 0;
  int waitingOn = -1;
};

struct CommunicatorNow {
  std::string id, name, host, failure;  // failure: "" as long as it works
  int pid = 0;                          // of the process that tells
  int64_t takenNs = 0;                  // CLOCK_MONOTONIC here
  std::vector<RankNow> ranks;
};

/// All that the processes in `folder` tell, of those that it can ask; a process that is stuck is left out after a
/// second.  Errors: InvalidUsage: the folder cannot be read, or what a process says is not understood.
Result<std::vector<CommunicatorNow>> takeSnapshot(const std::string& folder);

/// Of one process's answer.  Errors: InvalidUsage.
Result<std::vector<CommunicatorNow>> parseAnswer(const std::string& text);

}  // namespace tutti::top
