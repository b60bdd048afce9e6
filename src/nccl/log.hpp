// Log lines in the form that scripts know from NCCL:  host:pid:tid [device] NCCL INFO text
//
// NCCL_DEBUG chooses the level, NCCL_DEBUG_SUBSYS the subjects, NCCL_DEBUG_FILE where to; standard output otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace tutti::nccl {

enum class Level { None, Version, Warn, Info, Abort, Trace };

/// Subjects, with NCCL's bits.
namespace subject {
constexpr uint64_t kInit = 0x1, kColl = 0x2, kEnv = 0x80, kBootstrap = 0x1000, kReg = 0x2000, kDestroy = 0x10000;
constexpr uint64_t kAll = ~uint64_t{0};
}  // namespace subject

struct LogSettings {
  Level level = Level::None;
  uint64_t subjects = 0;
};

/// Read a level or a list of subjects ("INIT,COLL", "^NET").  False if `text` is not one.
bool parseLevel(const std::string& text, Level* level);
bool parseSubjects(const std::string& text, uint64_t* subjects);

/// Where and what to log from now on.  file: %h is the host, %p the process; empty is standard output.
/// False if the file cannot be opened.
bool setLog(const LogSettings& settings, const std::string& file);

bool infoEnabled(uint64_t subjects);
void logInfo(uint64_t subjects, const std::string& text);
void logWarn(const std::string& text);
/// The line with the version, at every level from VERSION up.
void logVersion(const std::string& text);

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* form, ...);

}  // namespace tutti::nccl
