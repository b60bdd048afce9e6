// Descriptor exchanges for tests: between threads through a map, between a parent and its forked children through
// descriptors inherited before the fork.
#pragma once

#include <fcntl.h>

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
    return {};
  }
  void unserve(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    served_.erase(key);
  }
  PendingFd fetch(int, const std::string& key) override {
    const std::lock_guard lock(mutex_);
    ++fetches_;
    return pendingBy<Fd>([this, key]() -> Result<Fd> {
      const std::lock_guard serving(mutex_);
      return served_.contains(key) ? Fd(fcntl(served_[key], F_DUPFD_CLOEXEC, 0)) : Fd();
    });
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
  std::map<std::string, int> served_;
  int fetches_ = 0;
};

}  // namespace tutti::test
