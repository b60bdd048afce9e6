// What a thread waits in, told by the other communicators that it has made: ranks that use two communicators in
// opposite order wait for each other in both, and each of these alone would say that they are in no call.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace tutti {

/// Any thread.
class ThreadWait {
 public:
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  /// Empty: it waits in none.
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  static const std::shared_ptr<ThreadWait>& ofThisThread() {
    static thread_local const std::shared_ptr<ThreadWait> own = std::make_shared<ThreadWait>();
    return own;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace tutti
