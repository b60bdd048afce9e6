// The profiler plugins for tests, of which there is one for each version of NCCL's interface.
#pragma once

#include <dlfcn.h>

#include <sstream>
#include <string>
#include <vector>

namespace tutti::test {

/// The program is compiled with the folder.
inline std::string profilerPluginPath(int version) {
  return std::string(TUTTI_PROFILER_PLUGINS) + "/libnccl-profiler-test" + std::to_string(version) + ".so";
}

/// What the plugin has written in this process since it was last asked: a line for every event that has ended, and
/// "complaint: ..." for every rule that its caller has broken.
inline std::vector<std::string> profilerPluginLines(int version) {
  std::vector<std::string> lines;
  void* const library = dlopen(profilerPluginPath(version).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const take = library != nullptr ? dlsym(library, "profilerPluginTake") : nullptr;
  if (take == nullptr) return {"complaint: the plugin cannot be asked"};
  std::istringstream text(reinterpret_cast<const char* (*)()>(take)());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace tutti::test
