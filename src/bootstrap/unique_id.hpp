// The content of a tuttiUniqueId: where ranks meet, and the secret that proves they may.
#pragma once

#include "src/base/clock.hpp"
#include "src/base/status.hpp"
#include "src/bootstrap/hub.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// 8 bytes magic and version, 16 commId, 32 secret, then the endpoint as text; the rest is zero.
struct MeetingPlace {
  CommId commId{};
  Secret secret{};
  Endpoint endpoint;
};

tuttiUniqueId encodeUniqueId(const MeetingPlace& place);
/// Errors: InvalidArgument: not an id made by tuttiGetUniqueId (or one of another version).
Result<MeetingPlace> decodeUniqueId(const tuttiUniqueId& id);

/// Open a meeting place in this process: a Session that serves it and ends when all ranks have met (or after the
/// timeout).  The listener is kept alive by a detached thread of its own.
Result<tuttiUniqueId> openMeetingPlace();

/// The environment's answer to "who am I and where do we meet": tutti-run, torchrun, Open MPI and PMIx, Slurm, or
/// alone.
struct LaunchInfo {
  std::string launcher;  // "tutti-run", "torchrun", "pmix", "slurm", "none"
  int rank = 0;
  int nRanks = 1;
  tuttiUniqueId id{};  // valid if nRanks > 1
};
/// May open the meeting place (on rank 0) and, with PMIx, exchange it.  Errors name the variable that is wrong.
Result<LaunchInfo> launchInfo(Deadline deadline);

}  // namespace tutti
