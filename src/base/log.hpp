// Log lines on stderr: "tutti <host>:<pid> warn plan: text".  Quiet (warn) unless TUTTI_LOG says otherwise.
//
//   TUTTI_LOG=debug            everything from debug up
//   TUTTI_LOG=warn,plan:debug  warn, but debug for the area `plan`
#pragma once

#include <string>
#include <string_view>

#include "src/base/text.hpp"

namespace tutti {

enum class LogLevel { Error, Warn, Info, Debug, Trace };

/// Whether a line of this level and area would be printed.  Any thread; reads the setting once per process.
bool logEnabled(LogLevel level, std::string_view area);

/// Print one line.  Any thread; a line is one write and never interleaves.
void logLine(LogLevel level, std::string_view area, const std::string& text);

/// False if `spec` is not what TUTTI_LOG understands; then *error says why.
bool checkLogSpec(std::string_view spec, std::string* error);

}  // namespace tutti

#define TUTTI_LOG_AT(level, area, ...)                                                              \
  do {                                                                                              \
    if (::tutti::logEnabled(level, area)) ::tutti::logLine(level, area, ::tutti::cat(__VA_ARGS__)); \
  } while (0)
#define TUTTI_WARN(area, ...) TUTTI_LOG_AT(::tutti::LogLevel::Warn, area, __VA_ARGS__)
#define TUTTI_INFO(area, ...) TUTTI_LOG_AT(::tutti::LogLevel::Info, area, __VA_ARGS__)
#define TUTTI_DEBUG(area, ...) TUTTI_LOG_AT(::tutti::LogLevel::Debug, area, __VA_ARGS__)
