// A host stream: a queue of jobs with a thread of its own, which runs them in order.
//
// Of users, and of communicators that do not block: their jobs do arithmetic, so that one thread for all (as proxies
// have, src/exec/progress_engine.hpp) would put the ranks of a process one behind the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/status.hpp"

namespace tutti {

/// A point in the queue of a stream, which it outlives.  Any thread.
class StreamPoint {
 public:
  /// By the stream, once.  error: the first of its jobs so far that it has not told.
  void pass(Status error);
  bool passed() const {
    return passed_.load(std::memory_order_acquire);
  }  // pairs with pass(): what jobs did is visible
  /// Waits until it is passed; the stream's error there.
  Status await() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<bool> passed_{false};
  Status error_;
};

/// Any thread.
class HostStream {
 public:
  using Job = std::function<Status()>;

  static Result<std::unique_ptr<HostStream>> create();
  /// Waits for what is enqueued.
  ~HostStream();

  void enqueue(Job job);
  /// The end of the queue as it is now.
  std::shared_ptr<const StreamPoint> mark();
  /// What is enqueued from now on waits for `point`, whose error becomes one of this stream.
  void follow(std::shared_ptr<const StreamPoint> point);
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
