#include "src/comm/turn.hpp"

namespace tutti {

void Turn::sleepUntil(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  changed_.wait(lock, [&] { return serving_.load(std::memory_order_seq_cst) >= ticket; });
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

void Turn::wakeAll() {
  const std::lock_guard lock(mutex_);  // a waiter between its test and its sleep holds the lock
  changed_.notify_all();
}

}  // namespace tutti
