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

/// Whether every chunk that `next` names lies in the plan behind its counterpart of `op`, so that a step with a count
/// can stand for both.
bool liesBehind(const Schedule& schedule, int lane, const Op& op, const Op& next);

/// [rank][lane][op]: the op's chunk travels in the message of the op before it (Op::joined), and lies behind that one's
/// chunk at both ends.
using RunsOfOps = std::vector<std::vector<std::vector<bool>>>;
RunsOfOps runsOf(const std::vector<Schedule>& schedules);

}  // namespace tutti::foreign
