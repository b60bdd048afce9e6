#include "src/base/log.hpp"

#include <unistd.h>

#include <array>
#include <map>
#include <optional>

#include "src/base/config.hpp"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"error", "warn", "info", "debug", "trace"};

std::optional<LogLevel> parseLevel(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

struct LogSpec {
  LogLevel base = LogLevel::Warn;
  std::map<std::string, LogLevel, std::less<>> areas;
};

bool parseSpec(std::string_view text, LogSpec* spec, std::string* error) {
  for (const std::string& part : split(text, ',')) {
    const size_t colon = part.find(':');
    const bool hasArea = colon != std::string::npos;
    const auto level = parseLevel(hasArea ? std::string_view(part).substr(colon + 1) : std::string_view(part));
    if (!level) {
      *error = cat("'", part, "' names no level; write LEVEL or AREA:LEVEL with error, warn, info, debug or trace");
      return false;
    }
    if (hasArea) {
      spec->areas[part.substr(0, colon)] = *level;
    } else {
      spec->base = *level;
    }
  }
  return true;
}

const LogSpec& processSpec() {
  static const LogSpec spec = [] {
    LogSpec parsed;
    std::string ignored;  // config.cpp reports a bad TUTTI_LOG to the caller as an error
    parseSpec(configText("TUTTI_LOG"), &parsed, &ignored);
    return parsed;
  }();
  return spec;
}

}  // namespace

bool checkLogSpec(std::string_view text, std::string* error) {
  LogSpec spec;
  return parseSpec(text, &spec, error);
}

bool logEnabled(LogLevel level, std::string_view area) {
  const LogSpec& spec = processSpec();
  const auto found = spec.areas.find(area);
  return level <= (found == spec.areas.end() ? spec.base : found->second);
}

void logLine(LogLevel level, std::string_view area, const std::string& text) {
  char host[64] = "?";
  (void)gethostname(host, sizeof host - 1);
  const std::string line =
      cat("tutti ", host, ":", getpid(), " ", kNames[static_cast<size_t>(level)], " ", area, ": ", text, "\n");
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tutti
