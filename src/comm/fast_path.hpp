// The fast path of calls without group and stream that are like ones made before (known_calls.hpp).
#pragma once

#include "src/comm/handle.hpp"

namespace tutti {

/// Runs the call.  False: there was none like it (or the communicator is not there any more); nothing was done then,
/// and the slow path is to be taken.
bool runAgain(tuttiComm* handle, const PlainCall& call, Status* result);
bool runAgain(tuttiComm* handle, const PlainTransfer& transfer, Status* result);

/// Runs what is prepared, on this thread, which has the turn.
Status runTask(Comm& comm, Task* run);

}  // namespace tutti
