// A host stream: a queue of jobs with a thread of its own, which runs them in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/status.hpp"

namespace tutti {

/// Any thread.
class HostStream {
 public:
  using Job = std::function<Status()>;

  static Result<std::unique_ptr<HostStream>> create();
  /// Waits for what is enqueued.
  ~HostStream();

  void enqueue(Job job);
  /// Waits until the queue is empty; the first error of a job since the last call of synchronize() or query().
  Status synchronize();
  /// InProgress while jobs are left; else as synchronize().
  Status query();

 private:
  HostStream() = default;
  void work();
  Status takeError();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  bool ending_ = false;
  Status error_;
  std::thread thread_;
};

}  // namespace tutti
