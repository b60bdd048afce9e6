// A signal by which a process dumps the flight records of all its communicators.
//
// Signals belong to the process, so this is the one list of recorders that is not a communicator's.  The handler does
// all by itself, with nothing that a handler may not call: it works where every thread of the library is stuck.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti {

class FlightRecorder;

/// The signal of a name as USR1, SIGUSR2, RTMIN+3 or a number; one that ends or stops processes, or belongs to faults,
/// is none.  Errors: InvalidUsage.
Result<int> parseDumpSignal(const std::string& name);

/// From now on `recorder`, borrowed, is written at TUTTI_DUMP_SIGNAL; a handler that was there is called, too.  Nothing
/// where that is unset.  Errors: InvalidUsage; SystemError.
Status dumpOnSignal(FlightRecorder* recorder);

/// Not any more; waits for a handler that is at it.
void forgetRecorder(const FlightRecorder* recorder);

}  // namespace tutti
