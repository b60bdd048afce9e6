// The fast path of calls in no stream that are like ones made before (known_calls.hpp): alone, in a group of one, or in
// a group of sends and receives.
#pragma once

#include <span>

#include "src/comm/group.hpp"
#include "src/comm/handle.hpp"

namespace tutti {

/// Runs the call.  False: there was none like it (or the communicator is not there any more); nothing was done then,
/// and the slow path is to be taken.
bool runAgain(tuttiComm* handle, const PlainCall& call, Status* result);
bool runAgain(tuttiComm* handle, const PlainTransfer& transfer, Status* result);
/// The same for what a group has collected, if that is one call, or sends and receives of one communicator.
bool runAgain(std::span<const CallGroup::Entry> calls, Status* result);

/// Runs what is prepared, on this thread, which has the turn.
Status runTask(Comm& comm, Task* run);

}  // namespace tutti
