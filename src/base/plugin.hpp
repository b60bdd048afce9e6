// Libraries written for NCCL that are loaded by name.
#pragma once

#include <cstdarg>
#include <string>

#include "src/base/plugin_logger.hpp"
#include "src/base/status.hpp"

namespace tutti {

/// The library of a name by NCCL's rules: a path, the name of a file that the loader finds, or X for
/// libnccl-KIND-X.so.  It stays: plugins have threads.  Errors: InvalidUsage: a clause that says what was looked for.
Result<void*> loadPlugin(std::string_view kind, const std::string& name);

/// What a plugin's logger is given, as text.
std::string pluginText(const char* format, va_list arguments);

/// Logs what a plugin says: its warnings as such, all else for those who debug.
void logPlugin(const char* area, int level, const char* format, va_list arguments);

/// The same text, for as long as the process lives: their interface lets plugins keep pointers to names.
const char* keptText(std::string_view text);

}  // namespace tutti
