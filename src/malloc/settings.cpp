#include "src/malloc/settings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/malloc/spans.hpp"

namespace tutti::arenas {
namespace {

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // there is nobody to tell
}

/// "64K", "1M", "2G" or bytes; false if it is none of them.
bool parseBytes(const char* text, size_t* bytes) {
  size_t value = 0;
  const char* at = text;
  for (; *at >= '0' && *at <= '9'; ++at) {
    if (value > SIZE_MAX / 16) return false;
    value = value * 10 + static_cast<size_t>(*at - '0');
  }
  if (at == text) return false;
  const char* const units = "KMG";
  const char* unit = *at == 0 ? nullptr : std::strchr(units, *at & ~0x20);
  if (*at != 0 && (unit == nullptr || at[1] != 0)) return false;
  const size_t shift = unit == nullptr ? 0 : 10 * static_cast<size_t>(unit - units + 1);
  if (value > SIZE_MAX >> shift) return false;
  *bytes = value << shift;
  return true;
}

void read(const char* name, size_t* bytes) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0 || parseBytes(text, bytes)) return;
  say("libtutti_malloc: ");
  say(name);
  say(" is no number of bytes such as 64K: ");
  say(text);
  say("\n");
}

/// Whether the system gives huge pages to all memory, asked or not.
bool alwaysHuge() {
  const int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[64] = {};
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  close(fd);
  return n > 0 && std::strstr(text, "[always]") != nullptr;
}

Settings fromEnvironment() {
  Settings s;
  read("TUTTI_MALLOC_LEAST", &s.leastBytes);
  read("TUTTI_MALLOC_KEEP", &s.keepBytes);
  if (s.leastBytes < spans::kPageBytes) s.leastBytes = spans::kPageBytes;
  s.huge = alwaysHuge();
  return s;
}

}  // namespace

// Not a static with a guard: allocations of the thread that initializes it come here as well.
const Settings& settings() {
  static Settings all;
  static std::atomic<int> state{0};  // 0: not read, 1: being read, 2: read
  if (state.load(std::memory_order_acquire) == 2) return all;
  static const Settings defaults;
  int none = 0;
  if (!state.compare_exchange_strong(none, 1)) return defaults;
  all = fromEnvironment();
  state.store(2, std::memory_order_release);
  return all;
}

}  // namespace tutti::arenas
