// Descriptor exchanges for tests: between threads through a map, between a parent and its forked children through
// descriptors inherited before the fork.
#pragma once

#include <fcntl.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "transport/services.hpp"

namespace tutti::test {

/// One object is all ranks' exchange: keys of different ranks never collide.  Any thread; survives fork() with what was
/// served before it.
class LocalExchange final : public FdExchange {
 public:
  Status serve(const std::string& key, int fd) override {
    const std::lock_guard lock(mutex_);
    served_[key] = fd;
    changed_.notify_all();
    return {};
  }
  void unserve(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    served_.erase(key);
  }
  Result<Fd> fetch(int peer, const std::string& key, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    ++fetches_;
    while (!served_.contains(key)) {
      changed_.wait_for(lock, std::chrono::milliseconds(deadline.leftMs(10)));
      if (deadline.passed()) return timeoutError("rank ", peer, " does not serve ", key);
    }
    return Fd(fcntl(served_[key], F_DUPFD_CLOEXEC, 0));
  }
  int fetches() const {
    const std::lock_guard lock(mutex_);
    return fetches_;
  }
  size_t numServed() const {
    const std::lock_guard lock(mutex_);
    return served_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> served_;
  int fetches_ = 0;
};

}  // namespace tutti::test
