// fork() for tests of processes that have threads.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tutti::test {

/// Whether every thread of this process but the caller sleeps.
inline bool othersSleep() {
  const std::string self = std::to_string(::gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == self) continue;
    std::ifstream file(task.path() / "stat");
    std::string line;
    std::getline(file, line);
    const size_t name = line.rfind(')');  // the name may hold anything; the state follows it
    if (name != std::string::npos && line.compare(name, 3, ") S") != 0) return false;
  }
  return true;
}

/// fork() at a moment when no other thread runs, for a second at most.  A child inherits the locks that threads hold,
/// and not the threads; the C library sees to its own allocator's, the sanitizers' allocators have none that do.
inline pid_t forkWhenIdle() {
  for (int i = 0; i < 10'000 && !othersSleep(); ++i) ::usleep(100);
  return ::fork();
}

}  // namespace tutti::test
