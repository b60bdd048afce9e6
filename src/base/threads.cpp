#include "src/base/threads.hpp"

#include <pthread.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace tutti {

void nameOwnThread(const char* name) { pthread_setname_np(pthread_self(), name); }

bool hasOneProgramThread() {
  int threads = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator task("/proc/self/task", error), end; !error && task != end;
       task.increment(error)) {
    std::string name;
    std::ifstream file(task->path() / "comm");
    if (!std::getline(file, name)) continue;  // it has ended
    if (!name.starts_with("tutti-") && ++threads > 1) return false;
  }
  return !error && threads == 1;
}

}  // namespace tutti
