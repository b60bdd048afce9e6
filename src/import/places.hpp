// Plans for calls in place made to serve calls out of place, and the reverse, with the same messages: ranks of one call
// do not know of each other where their buffers are.
#pragma once

#include <optional>

#include "src/import/imported_plan.hpp"

namespace tutti {

/// The same messages and results from a schedule for calls in place.  A chunk is read from Input until it is first
/// written, then from Output; what is never written is copied at the end.
Schedule outOfPlaceFrom(const Schedule& inPlace);

/// The reverse: what is read after its place in Output was written is kept in scratch before.  Nothing if one lane
/// reads what another one overwrites: their order is open.
std::optional<Schedule> inPlaceFrom(const Schedule& outOfPlace);

/// Fill in the kind of call that the plan is not for; where it is for both with different messages, the schedules for
/// calls out of place are made from those in place.  What is made is verified.  Where there can be none for calls in
/// place, there are none: such a call needs a copy of its input, and then goes as one out of place.
/// Errors: InvalidArgument with origin if there can be none for calls out of place.
Status completePlaces(ImportedPlan* plan);

}  // namespace tutti
