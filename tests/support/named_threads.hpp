// Threads of this process by name.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace tutti::test {

/// f(folder of /proc) for each.
template <class F>
void forThreadsNamed(const std::string& name, F f) {
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream file(task.path() / "comm");
    std::string its;
    if (std::getline(file, its) && its == name) f(task.path());
  }
}

inline int threadsNamed(const std::string& name) {
  int count = 0;
  forThreadsNamed(name, [&](const auto&) { ++count; });
  return count;
}

/// How often they have come to run.
inline long switchesOf(const std::string& name) {
  long all = 0;
  forThreadsNamed(name, [&](const std::filesystem::path& folder) {
    std::ifstream file(folder / "status");
    for (std::string line; std::getline(file, line);) {
      if (line.find("ctxt_switches:") != std::string::npos) all += std::stol(line.substr(line.find(':') + 1));
    }
  });
  return all;
}

}  // namespace tutti::test
