// Log lines of what all ranks of a process find alike, such as a library that is missing: printed once per process.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/log.hpp"

namespace tutti {

/// Prints one line, unless this process has printed the same text for that area.  Any thread.
inline void logLineOnce(LogLevel level, std::string_view area, const std::string& text) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> printed;
  const std::lock_guard lock(mutex);
  if (printed.emplace(area, text).second) logLine(level, area, text);
}

}  // namespace tutti

#define TUTTI_WARN_ONCE(area, ...)                                                    \
  do {                                                                                \
    if (::tutti::logEnabled(::tutti::LogLevel::Warn, area))                           \
      ::tutti::logLineOnce(::tutti::LogLevel::Warn, area, ::tutti::cat(__VA_ARGS__)); \
  } while (0)
