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

}  // namespace tutti
