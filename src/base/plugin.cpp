#include "src/base/plugin.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <mutex>
#include <set>

#include "src/base/log.hpp"

namespace tutti {

Result<void*> loadPlugin(std::string_view kind, const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const std::string why = dlerror();
  if (name.find('/') != std::string::npos) return invalidUsage(ErrorCode::NoLibrary, "cannot be loaded (", why, ")");
  const std::string suffixed = cat("libnccl-", kind, "-", name, ".so");
  library = dlopen(suffixed.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return invalidUsage(ErrorCode::NoLibrary, "neither a file of this name nor ", suffixed, " can be loaded (", why, "; ",
                      dlerror(), "); give its path, or put its folder into LD_LIBRARY_PATH");
}

std::string pluginText(const char* format, va_list arguments) {
  std::array<char, 1024> text;
  std::vsnprintf(text.data(), text.size(), format, arguments);
  return text.data();
}

void logPlugin(const char* area, int level, const char* format, va_list arguments) {
  const std::string text = pluginText(format, arguments);
  TUTTI_LOG_AT(level == kPluginWarns ? LogLevel::Warn : LogLevel::Debug, area, text);
}

const char* keptText(std::string_view text) {
  static auto* const mutex = new std::mutex;
  static auto* const texts = new std::set<std::string, std::less<>>;
  const std::lock_guard lock(*mutex);
  return texts->emplace(text).first->c_str();
}

}  // namespace tutti
