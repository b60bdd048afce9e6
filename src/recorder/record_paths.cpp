#include "src/recorder/record_paths.hpp"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>

#include "src/recorder/flight_recorder.hpp"

namespace tutti {
namespace {

/// Of one % in a pattern; "": there is none such.
std::string meaningOf(char letter, const RecorderIdentity& identity) {
  switch (letter) {
    case 'r': return std::to_string(identity.rank);
    case 'c': return toHex(identity.communicator);
    case 'h': return thisHost();
    case 'p': return std::to_string(getpid());
    case '%': return "%";
    default: return "";
  }
}

std::string fill(const std::string& pattern, const RecorderIdentity& identity) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '%') {
      name += meaningOf(pattern[++i], identity);
    } else {
      name += pattern[i];
    }
  }
  return name;
}

}  // namespace

Status checkRecordPattern(std::string_view variable, const std::string& value) {
  bool ofRank = value.find('%') == std::string::npos, ofCommunicator = ofRank;
  for (size_t i = value.find('%'); i != std::string::npos; i = value.find('%', i + 2)) {
    const char letter = i + 1 < value.size() ? value[i + 1] : 0;
    if (letter == 0 || meaningOf(letter, {}).empty())
      return invalidUsage(ErrorCode::RecordName, variable, "=", value, ": %",
                          std::string(1, letter == 0 ? ' ' : letter),
                          " is none of %r (rank), %c (communicator), %h (host), %p (process), %%; a folder is enough");
    ofRank = ofRank || letter == 'r';
    ofCommunicator = ofCommunicator || letter == 'c';
  }
  if (ofRank && ofCommunicator) return {};
  return invalidUsage(ErrorCode::RecordName, variable, "=", value, " has no ",
                      ofRank ? "%c (communicator)" : "%r (rank)",
                      " in it, so that files would overwrite each other; a folder is enough");
}

std::string recordName(const std::string& folder, std::string_view end, const RecorderIdentity& identity) {
  char rank[16];
  std::snprintf(rank, sizeof rank, "%04d", identity.rank);
  return cat(folder, "/tutti-", toHex(identity.communicator), "-rank", rank, end);
}

Result<std::string> recordPath(std::string_view variable, const std::string& value, std::string_view end,
                               const RecorderIdentity& identity) {
  TUTTI_TRY(checkRecordPattern(variable, value));
  const bool pattern = value.find('%') != std::string::npos;
  const std::string path = pattern ? fill(value, identity) : recordName(value, end, identity);
  std::error_code error;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::filesystem::create_directories(folder, error);
  if (error)
    return systemError(ErrorCode::RecordNotWritten, variable, "=", value, ": cannot make the folder ", folder.string(),
                       ": ", error.message(), "; name a folder that every rank may write to");
  if (variable == "TUTTI_DUMP" && value != "." && access(folder.c_str(), W_OK) != 0)
    return systemError(ErrorCode::RecordNotWritten, variable, "=", value, ": cannot write into the folder ",
                       folder.string(), "; name one that every rank may write to");
  // Later, another folder may be the process's own.
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  return error ? path : whole.string();
}

std::string thisHost() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

int64_t wallClockAheadNs() noexcept {
  timespec wall{}, steady{};
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_MONOTONIC, &steady);
  return (int64_t{wall.tv_sec} - steady.tv_sec) * 1'000'000'000 + (wall.tv_nsec - steady.tv_nsec);
}

}  // namespace tutti
