// What configuration variables may be, those included that hold names of other rooms: algorithms, transports,
// interfaces, files.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti {

/// Whether a communicator could honour `value` of the variable `name`, which is in the table of src/base/config.hpp.
/// Files that ranks read together while a communicator comes up are read here too.
/// Errors: InvalidUsage naming variable and value, and what there is instead.
Status checkVariable(std::string_view name, const std::string& value);

/// All variables as they are set, and unknown TUTTI_* names (checkConfig).  Leaves out those whose file all ranks hear
/// of while a communicator comes up.
/// Errors: those of checkVariable().
Status checkVariables();

/// setDefault() for values that checkVariable() takes.  Any thread.
/// Errors: InvalidArgument: no such variable, one that has no default, or a value that cannot be honoured.
Status setVariable(std::string_view name, const char* value);

}  // namespace tutti
