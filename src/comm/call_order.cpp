#include "src/comm/call_order.hpp"

#include <chrono>

namespace tutti {
namespace {

// Between two looks of a waiter whom finish() may not see.
constexpr std::chrono::milliseconds kUnsureWait{1};

}  // namespace

void CallOrder::sleepUntil(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1, std::memory_order_relaxed);
  const bool sure = heavyFence();  // before serving_ is read: see finish()
  const auto comes = [&] { return hasTurn(ticket); };
  if (sure) changed_.wait(lock, comes);
  while (!sure && !changed_.wait_for(lock, kUnsureWait, comes)) passSkipped();
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
  waiters_.fetch_add(1, std::memory_order_relaxed);
  (void)heavyFence();  // before serving_ is read: see finish()
  passSkipped();
  changed_.notify_all();
}

// Nobody else writes serving_ meanwhile: the ticket that is served is one whose owner has gone.
void CallOrder::passSkipped() {
  while (skipped_.erase(serving_.load(std::memory_order_acquire)) > 0) {
    serving_.fetch_add(1, std::memory_order_acq_rel);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace tutti
