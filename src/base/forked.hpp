// What fork() does to state of the whole process: a child has none of the threads, and what they held stays held.
#pragma once

#include <cstdint>
#include <mutex>

namespace tutti {

/// A lock of the process, which a forked child never finds taken: fork() waits for it.
/// A thread may hold several of them, in any order that is free of deadlocks without fork().
class ProcessMutex {
 public:
  ProcessMutex();
  ~ProcessMutex();
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  bool try_lock() { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

/// Differs between a process and its forked children.  Any thread.
uint32_t forkGeneration();

/// Have fork() call `hook` before it makes a child, while it holds all ProcessMutexes.  The hook must not
/// take them.
void beforeFork(void (*hook)());

/// Have fork() call `hook` in every child, when its ProcessMutexes are free.  The hook must not allocate.
void inForkedChild(void (*hook)());

}  // namespace tutti
