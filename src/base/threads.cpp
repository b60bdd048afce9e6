#include "src/base/threads.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/folder.hpp"

namespace tutti {
namespace {

/// Threads that wait until all of them are there.
class Crew {
 public:
  explicit Crew(size_t most) { threads_.reserve(most); }
  ~Crew() { join(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  template <class Work>
  Status add(std::string_view what, Work work) {
    TUTTI_ASSIGN(std::thread thread, startThread(what, [this, work] {
                   if (mayRun()) work();
                 }));
    threads_.push_back(std::move(thread));  // there is room
    return {};
  }
  void open() {
    opened_ = true;
    shut_.unlock();
  }
  /// Those that have not been let in end without having run.
  void join() {
    if (shut_.owns_lock()) shut_.unlock();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  bool mayRun() {
    const std::lock_guard lock(gate_);
    return opened_;
  }

  std::mutex gate_;
  std::unique_lock<std::mutex> shut_{gate_};
  bool opened_ = false;  // under the lock
  std::vector<std::thread> threads_;
};

}  // namespace

Status noThread(std::string_view what, int error) {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const Status why = errnoError(ErrorCode::NoThread, error, cat("cannot start a thread for ", what));
  return systemError(ErrorCode::NoThread, why.message(), "; raise `ulimit -u` (now ",
                     limited ? cat(limit.rlim_cur) : "unlimited", "), or the container's limit of pids");
}

Result<std::vector<Status>> runTogether(std::string_view what, const std::vector<std::function<Status()>>& tasks) {
  std::vector<Status> ends(tasks.size());
  Crew crew(tasks.size());
  for (size_t i = 1; i < tasks.size(); ++i) {
    TUTTI_TRY(crew.add(what, [&task = tasks[i], &end = ends[i]] { end = caught(task); }));
  }
  crew.open();
  if (!tasks.empty()) ends[0] = caught(tasks[0]);
  crew.join();
  return ends;
}

void nameOwnThread(const char* name) { pthread_setname_np(pthread_self(), name); }

bool hasOneProgramThread() {
  const auto tasks = namesIn("/proc/self/task");
  int threads = 0;
  for (const std::string& task : tasks.value_or(std::vector<std::string>())) {
    std::string name;
    std::ifstream file(cat("/proc/self/task/", task, "/comm"));
    if (!std::getline(file, name)) continue;  // it has ended
    if (!name.starts_with("tutti-") && ++threads > 1) return false;
  }
  return threads == 1;
}

}  // namespace tutti
