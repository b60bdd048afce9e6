// The schedules of a plan that was chosen, as they are built and rewritten for a call.
#pragma once

#include <cstdint>
#include <optional>

#include "src/collective/call.hpp"
#include "src/exec/plan.hpp"
#include "src/plan/planner.hpp"

namespace tutti {

struct Rewrites {
  bool ordered = false;  // operands are combined in rank order
  bool direct = false;   // values are read where they lie
  bool byTwo = false;    // no op adds up more than two operands
};

/// Where the chunks of the call's buffers lie.
Layout layoutOf(const Schedule& schedule, const Call& call);

/// Of the values that ops of a call handle.
size_t chunkBytes(const Shape& shape, const Schedule& schedule);

/// Whether channels start apart.
bool staggers(const Choice& choice, const Shape& shape, const Schedule& schedule);

/// This rank's schedule.
Schedule buildSchedule(const Choice& choice, const Shape& shape, const Rewrites& rewrites, const Call& call);

/// As roundingOf() of its schedules, none of which is ordered.
std::optional<uint64_t> roundingOf(const Choice& choice, const Shape& shape, const Rewrites& rewrites,
                                   tuttiDataType_t dtype);

}  // namespace tutti
