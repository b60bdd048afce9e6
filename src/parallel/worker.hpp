// A thread that runs tasks in order, beside its owner's computation.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "src/base/threads.hpp"
#include "src/parallel/memory.hpp"

namespace tutti::parallel {

inline double millisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class Worker {
 public:
  /// Throws a sentence where no thread can be had.
  Worker() : thread_(orThrow(startThread("what a layer sends while it computes", [this] { work(); }))) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_all();
  }
  /// As post; a failure goes to whoever asks the future, and to nobody else.
  std::shared_future<void> submit(std::function<void()> task) {
    const auto packaged = std::make_shared<std::packaged_task<void()>>(std::move(task));
    post([packaged] { (*packaged)(); });
    return packaged->get_future().share();
  }
  /// Waits for all tasks; throws what the first failing one threw.  Tasks after a failing one do not run.
  void wait() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return tasks_.empty() && !busy_; });
    if (failure_ == nullptr) return;
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      const bool skip = failure_ != nullptr;
      busy_ = true;
      lock.unlock();
      std::exception_ptr failure;
      try {
        if (!skip) task();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure != nullptr) failure_ = failure;
      busy_ = false;
      idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false, busy_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace tutti::parallel
