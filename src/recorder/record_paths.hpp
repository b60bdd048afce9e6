// Where a rank's records go, and what they say of the machine.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti {

struct RecorderIdentity;

/// Whether a variable may have this value: a folder, or the name of a file with %r (rank), %c (communicator), %h (host)
/// and %p (process) in it.  Errors: InvalidUsage naming the variable.
Status checkRecordPattern(std::string_view variable, const std::string& value);

/// The file's name; its folder is made where it is missing.  end: of a name in a folder.
/// Errors: InvalidUsage, as checkRecordPattern(); SystemError naming variable and folder.
Result<std::string> recordPath(std::string_view variable, const std::string& value, std::string_view end,
                               const RecorderIdentity& identity);

/// "FOLDER/tutti-00c0ffee00c0ffee-rank0003.dump"
std::string recordName(const std::string& folder, std::string_view end, const RecorderIdentity& identity);

/// The name of this host.
std::string thisHost();

/// CLOCK_REALTIME minus CLOCK_MONOTONIC; also from a signal's handler.
int64_t wallClockAheadNs() noexcept;

}  // namespace tutti
