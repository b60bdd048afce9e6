// The order of calls on one communicator.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace tutti {

/// Calls on one communicator run in the order in which they were made, whatever stream carries them.  Any thread.
class Turn {
 public:
  uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }
  /// Waits until every earlier ticket has been finished.
  void await(uint64_t ticket);
  void finish(uint64_t ticket);
  /// Waits until every ticket taken so far has been finished.
  void drain() { await(next_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> serving_{0};
  std::atomic<int> waiters_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace tutti
