#include "src/comm/call_order.hpp"

namespace tutti {

void CallOrder::sleepUntil(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  changed_.wait(lock, [&] { return serving_.load(std::memory_order_seq_cst) >= ticket; });
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

void CallOrder::wakeAll() {
  const std::lock_guard lock(mutex_);  // a waiter between its test and its sleep holds the lock
  passSkipped();
  changed_.notify_all();
}

void CallOrder::skip(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  skipped_.insert(ticket);
  waiters_.fetch_add(1, std::memory_order_seq_cst);  // before serving_ is read: see finish()
  passSkipped();
  changed_.notify_all();
}

// Nobody else writes serving_ meanwhile: the ticket that is served is one whose owner has gone.
void CallOrder::passSkipped() {
  while (skipped_.erase(serving_.load(std::memory_order_seq_cst)) > 0) {
    serving_.fetch_add(1, std::memory_order_seq_cst);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace tutti
