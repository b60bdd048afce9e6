// The tuner plugins for tests, of which there is one for each version of NCCL's interface.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tutti::test {

/// The program is compiled with the folder.
inline std::string tunerPluginPath(int version) {
  return std::string(TUTTI_TUNER_PLUGINS) + "/libnccl-tuner-test" + std::to_string(version) + ".so";
}

/// What a plugin counts in this process: "Asked", calls of getCollInfo; "Alive", contexts that have not been given
/// back; -1 if it cannot be asked.
inline int tunerPluginCount(int version, const char* what) {
  void* const library = dlopen(tunerPluginPath(version).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const count = library != nullptr ? dlsym(library, (std::string("tunerPlugin") + what).c_str()) : nullptr;
  return count != nullptr ? reinterpret_cast<int (*)()>(count)() : -1;
}

}  // namespace tutti::test
