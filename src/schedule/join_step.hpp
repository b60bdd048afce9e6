// How the chunks of one step become messages of several chunks.
#pragma once

#include <cstddef>
#include <span>

#include "src/schedule/schedule.hpp"

namespace tutti {

/// Reorder and join the ops of one step: of the chunks that go to one rank, or come from it, every `most` in a row are
/// a message.  Both ends count from the beginning of the step, so they agree.  First go the copies and the first
/// message to each rank, then the first from each, then the second to each, and so on: as with single chunks one
/// message of room is enough.  Order between two ranks stays.  Logical ops; no send depends on a receive of the step.
void joinStep(std::span<Op> ops, size_t most);

}  // namespace tutti
