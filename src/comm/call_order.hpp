// The order of calls on one communicator, and how they are numbered.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>

#include "src/base/asymmetric_fence.hpp"
#include "src/comm/call_numbers.hpp"

namespace tutti {

/// Calls on one communicator run in the order in which they were made, whatever stream carries them.  Any thread.
///
/// A caller with a ticket that then finds the communicator's handle ready may use the communicator until it finishes
/// the ticket: an end of the communicator is said in the handle first and then drains.  Both sides are seq_cst, so one
/// of them sees the other.
class CallOrder {
 public:
  uint64_t take() { return next_.fetch_add(1, std::memory_order_seq_cst); }
  /// Whether every earlier ticket has been finished.
  bool hasTurn(uint64_t ticket) const {
    return serving_.load(std::memory_order_acquire) >= ticket;  // pairs with finish(): what it did is visible
  }
  /// Waits until it has.
  void await(uint64_t ticket) {
    if (!hasTurn(ticket)) [[unlikely]]
      sleepUntil(ticket);
  }
  void finish(uint64_t ticket) {
    // Either this load sees the waiter, or the waiter's test sees this store.  A fence here would also wait until the
    // call's messages have left this core.
    serving_.store(ticket + 1, std::memory_order_release);
    lightFence();
    if (waiters_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wakeAll();
  }
  /// Instead of await() and finish(): it counts as finished when it is its turn.
  void skip(uint64_t ticket);
  /// Waits until every ticket taken so far has been finished.
  void drain() { await(next_.load(std::memory_order_seq_cst)); }
  /// Only with the turn.
  CallNumbers& numbers() { return numbers_; }

 private:
  void sleepUntil(uint64_t ticket);
  void wakeAll();
  void passSkipped();

  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> serving_{0};
  std::atomic<int> waiters_{0};  // threads asleep, and tickets in skipped_: both are finish()'s business
  std::mutex mutex_;
  std::set<uint64_t> skipped_;
  std::condition_variable changed_;
  CallNumbers numbers_;
};

/// A turn that has come, until this goes.
class TurnOf {
 public:
  TurnOf(CallOrder& order, uint64_t ticket) : order_(order), ticket_(ticket) {}
  TurnOf(const TurnOf&) = delete;
  TurnOf& operator=(const TurnOf&) = delete;
  ~TurnOf() { order_.finish(ticket_); }

 private:
  CallOrder& order_;
  const uint64_t ticket_;
};

}  // namespace tutti
