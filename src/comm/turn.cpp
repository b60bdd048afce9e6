#include "src/comm/turn.hpp"

namespace tutti {

void Turn::await(uint64_t ticket) {
  if (serving_.load(std::memory_order_acquire) >= ticket) return;  // pairs with finish(): what it did is visible
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  changed_.wait(lock, [&] { return serving_.load(std::memory_order_seq_cst) >= ticket; });
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

void Turn::finish(uint64_t ticket) {
  // Either this load sees the waiter, or the waiter's test sees this store: both are sequentially consistent.
  serving_.store(ticket + 1, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock(mutex_);  // a waiter between its test and its sleep holds the lock
  changed_.notify_all();
}

}  // namespace tutti
