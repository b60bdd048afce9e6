#include "src/device/host/memory_map.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

namespace tutti {
namespace {

/// The lines of a file of /proc.
class Lines {
 public:
  explicit Lines(const char* path) : file_(std::fopen(path, "re"), &std::fclose) {}
  bool opened() const { return file_ != nullptr; }
  /// The next line without its end; what is longer than `line` is cut off.  Null at the end.
  const char* next() {
    if (file_ == nullptr || std::fgets(line_, sizeof line_, file_.get()) == nullptr) return nullptr;
    char* end = std::strchr(line_, '\n');
    if (end != nullptr) *end = 0;
    for (int c = 0; end == nullptr && c != '\n' && c != EOF;) c = std::fgetc(file_.get());
    return line_;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  char line_[512];
};

/// "7f00-7f10 rw-p 00000000 00:01 1234   /memfd:tutti (deleted)"
bool parseRange(const char* line, MappedRange* range) {
  unsigned long begin = 0, end = 0, offset = 0, inode = 0;
  char permissions[8], device[16];
  int name = 0;
  const int n =
      std::sscanf(line, "%lx-%lx %7s %lx %15s %lu %n", &begin, &end, permissions, &offset, device, &inode, &name);
  if (n != 6) return false;
  *range = {begin, end, permissions, offset, device, inode, line + name, "", false};
  return true;
}

/// The number behind `field` in /proc/self/status or /proc/meminfo, in bytes.
bool kibOf(const char* path, const char* field, size_t* bytes) {
  Lines lines(path);
  while (const char* line = lines.next()) {
    size_t kib = 0;
    if (std::strncmp(line, field, std::strlen(field)) != 0) continue;
    if (std::sscanf(line + std::strlen(field), "%zu kB", &kib) != 1) return false;
    *bytes = kib * 1024;
    return true;
  }
  return false;
}

void parseDetail(std::string_view line, MappedRange* range) {
  constexpr std::string_view kFlags = "VmFlags: ", kKey = "ProtectionKey:";
  if (line.starts_with(kFlags)) range->flags = line.substr(kFlags.size());
  if (line.starts_with(kKey)) range->keyed = line.find_first_of("123456789") != std::string_view::npos;
}

}  // namespace

Result<std::vector<MappedRange>> mappedRanges(uintptr_t begin, uintptr_t end, bool withFlags) {
  const char* path = withFlags ? "/proc/self/smaps" : "/proc/self/maps";
  Lines lines(path);
  if (!lines.opened()) return errnoError(errno, ErrorCode::MachineUnreadable, path);
  std::vector<MappedRange> found;
  bool inside = false;
  while (const char* line = lines.next()) {
    MappedRange range;
    if (!parseRange(line, &range)) {
      if (inside) parseDetail(line, &found.back());
      continue;
    }
    if (range.begin >= end) break;
    inside = range.end > begin;
    if (inside) found.push_back(std::move(range));
  }
  return found;
}

std::string mappedDevice() {
  Lines lines("/proc/self/maps");
  while (const char* line = lines.next()) {
    const char* name = std::strstr(line, " /dev/");
    if (name == nullptr) continue;
    const std::string_view device(name + 1);
    for (const std::string_view prefix : {"/dev/nvidia", "/dev/kfd", "/dev/dri/"})
      if (device.starts_with(prefix)) return std::string(device);
  }
  return "";
}

size_t pinnedBytes() {
  size_t bytes = 0;
  return kibOf("/proc/self/status", "VmPin:", &bytes) ? bytes : 0;
}

size_t availableBytes() {
  size_t bytes = 0;
  return kibOf("/proc/meminfo", "MemAvailable:", &bytes) ? bytes : SIZE_MAX;
}

}  // namespace tutti
