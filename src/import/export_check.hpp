// What the exporters share: which schedules can be exported, and where their chunks are in a foreign plan.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti::foreign {

/// Errors: InvalidArgument if the schedules do not verify or have other ops than send, recv, recvReduce, copy and
/// reduce.
Status checkExportable(const std::vector<Schedule>& schedules);

/// "i", "o", "s".
const char* bufferLetter(Buffer buffer);
/// The plan's index of a chunk as lane `lane` sees it: plans have a chunk for every channel's part.
int planIndex(const Schedule& schedule, int lane, Chunk chunk);
/// Pieces of the plan's whole message.
int planPieces(const Schedule& schedule);

}  // namespace tutti::foreign
