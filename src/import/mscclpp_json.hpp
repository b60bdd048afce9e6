// Plans in MSCCL++'s execution-plan JSON (github.com/microsoft/mscclpp), the present format and the one before it,
// which is told by its "inputChunks".
//
// One-sided stores become messages, loads of remote memory become messages of its owner, signals, packets, barriers and
// semaphores order them.  Multicast is many messages.  A pipeline is played once over whole chunks: executors here cut
// chunks into slices themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/import/imported_plan.hpp"

namespace tutti {

/// `origin` is the file name or another word for messages.
/// Errors: InvalidArgument "origin: /path: sentence", or what is wrong with what it computes; Internal if this build
/// has no nlohmann-json.
Result<ImportedPlan> importMscclppJson(std::string_view text, const std::string& origin);

/// Its head, without looking at the rest.  Errors: as above.
Result<PlanHead> headOfMscclppJson(std::string_view text, const std::string& origin);

/// Our schedules, one per rank and of logical ops, in the present format: a thread block per lane.  A message is a put
/// into its target where nobody uses that before, else into scratch of its own, and a signal.
/// Errors: InvalidArgument for collectives that MSCCL++ does not have (all but AllReduce, AllGather, ReduceScatter and
/// AllToAll), for fused ops, for direct sends and for schedules that differ.
Result<std::string> exportMscclppJson(const std::vector<Schedule>& schedules, const std::string& name);

}  // namespace tutti
