#include "src/nccl/log.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "src/nccl/current_device.hpp"

namespace tutti::nccl {
namespace {

struct Name {
  std::string_view name;
  uint64_t bits;
};
// In the order of NCCL's bits.
constexpr Name kSubjects[] = {
    {"INIT", 0x1},         {"COLL", 0x2},           {"P2P", 0x4},           {"SHM", 0x8},
    {"NET", 0x10},         {"GRAPH", 0x20},         {"TUNING", 0x40},       {"ENV", 0x80},
    {"ALLOC", 0x100},      {"CALL", 0x200},         {"PROXY", 0x400},       {"NVLS", 0x800},
    {"BOOTSTRAP", 0x1000}, {"REG", 0x2000},         {"PROFILE", 0x4000},    {"RAS", 0x8000},
    {"DESTROY", 0x10000},  {"ALLOC_HOST", 0x20000}, {"ALL", subject::kAll},
};
constexpr std::string_view kLevels[] = {"", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};

std::atomic<Level> logLevel{Level::None};
std::atomic<uint64_t> logSubjects{0};
std::atomic<int> logFile{STDOUT_FILENO};

std::string hostName() {
  char host[256] = "?";
  (void)gethostname(host, sizeof host - 1);
  const std::string_view text(host);
  return std::string(text.substr(0, text.find('.')));
}

std::string timeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "[%Y-%m-%d %H:%M:%S] ", &parts);
  return text;
}

// The number in brackets is the thread's CUDA device; ranks on host memory have none.
std::string prefix() {
  return format("%s:%d:%ld [%d] ", hostName().c_str(), static_cast<int>(getpid()), syscall(SYS_gettid),
                currentDevice());
}

void put(const std::string& line) {
  [[maybe_unused]] const ssize_t ignored = ::write(logFile.load(std::memory_order_relaxed), line.data(), line.size());
}

/// The folder and name that a pattern stands for.
std::string expand(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') path += hostName();
    if (next == 'p') path += std::to_string(getpid());
    if (next == '%') path += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

}  // namespace

std::string format(const char* form, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, form);
  std::vsnprintf(text, sizeof text, form, arguments);
  va_end(arguments);
  return text;
}

bool parseLevel(const std::string& text, Level* level) {
  const std::string name = upper(text);
  for (size_t i = 1; i < std::size(kLevels); ++i) {
    if (name != kLevels[i]) continue;
    *level = static_cast<Level>(i);
    return true;
  }
  return false;
}

bool parseSubjects(const std::string& text, uint64_t* subjects) {
  std::string_view rest(text);
  const bool exclude = rest.starts_with('^');
  if (exclude) rest.remove_prefix(1);
  uint64_t bits = 0;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string name = upper(std::string(rest.substr(0, comma)));
    bool known = false;
    for (const Name& subject : kSubjects) {
      if (name != subject.name) continue;
      bits |= subject.bits;
      known = true;
    }
    if (!known) return false;
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  *subjects = exclude ? ~bits : bits;
  return true;
}

bool setLog(const LogSettings& settings, const std::string& file) {
  logLevel.store(settings.level, std::memory_order_relaxed);
  logSubjects.store(settings.subjects, std::memory_order_relaxed);
  if (file.empty() || settings.level <= Level::Version) return true;  // the version goes to standard output, as NCCL's
  const int fd = ::open(expand(file).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  logFile.store(fd, std::memory_order_relaxed);  // an earlier file stays open: another thread may be writing to it
  return true;
}

bool infoEnabled(uint64_t subjects) {
  return logLevel.load(std::memory_order_relaxed) >= Level::Info &&
         (logSubjects.load(std::memory_order_relaxed) & subjects) != 0;
}

void logInfo(uint64_t subjects, const std::string& text) {
  if (infoEnabled(subjects)) put(prefix() + "NCCL INFO " + text + "\n");
}

void logWarn(const std::string& text) {
  if (logLevel.load(std::memory_order_relaxed) < Level::Warn) return;
  std::string line(1, '\n');  // an empty one in front, as scripts know it
  put(line.append(timeNow()).append(prefix()).append("tutti NCCL WARN ").append(text).append("\n"));
}

void logVersion(const std::string& text) {
  const Level level = logLevel.load(std::memory_order_relaxed);
  if (level == Level::Version || level == Level::Warn) put(text + "\n");
  if (level >= Level::Info) put(prefix() + "NCCL INFO " + text + "\n");
}

}  // namespace tutti::nccl
