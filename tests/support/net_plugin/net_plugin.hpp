// The network plugins for tests, of which there is one for each version of NCCL's interface.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tutti::test {

/// The program is compiled with the folder.
inline std::string netPluginPath(int version) {
  return std::string(TUTTI_NET_PLUGINS) + "/libnccl-net-test" + std::to_string(version) + ".so";
}

/// What a plugin counts in this process: "Alive", objects that have not been given back; "Torn", comms that were closed
/// with requests under way; "DmaBufs", pieces of memory that were registered so, and "Flushes", ever; "Complaints",
/// rules that its callers have broken; -1 if it cannot be asked.
inline int netPluginCount(int version, const char* what) {
  void* const library = dlopen(netPluginPath(version).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const count = library != nullptr ? dlsym(library, (std::string("netPlugin") + what).c_str()) : nullptr;
  return count != nullptr ? reinterpret_cast<int (*)()>(count)() : -1;
}

}  // namespace tutti::test
