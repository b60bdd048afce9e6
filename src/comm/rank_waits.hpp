// What this rank waits for, written by the threads of its caller and read by the one that answers inquiries.
#pragma once

#include <atomic>
#include <optional>

#include "src/control/bootstrap_node.hpp"

namespace tutti {

/// waitFor: one thread.  The others: any thread, at any time.
class RankWaits {
 public:
  /// The newest collective, which is the entered-th, waits for this rank, or for none (-1).
  void waitFor(uint64_t entered, int rank) {
    waitingOn_.store(entered << 32 | static_cast<uint32_t>(rank), std::memory_order_relaxed);
  }
  /// A send or receive waits, or none does.
  void waitFor(const std::optional<MessageWait>& message);
  /// The caller is in such a call, until it is in None.
  void attend(Attendance call) { attends_.store(call, std::memory_order_relaxed); }

  /// Whom the entered-th collective waits for, or -1.
  int waitingOn(uint64_t entered) const {
    const uint64_t wait = waitingOn_.load(std::memory_order_relaxed);
    return wait >> 32 == (entered & UINT32_MAX) ? static_cast<int32_t>(static_cast<uint32_t>(wait)) : -1;
  }
  std::optional<MessageWait> message() const;
  Attendance attends() const { return attends_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> waitingOn_{UINT32_MAX};  // the collective's number, 32 bits, and the rank
  struct Message {
    std::atomic<uint64_t> tag{0};  // 0: none; else another for every wait: a number, the direction, the peer
    std::atomic<uint64_t> head{0}, count{0};
  };
  Message message_;
  uint64_t messageWaits_ = 0;
  std::atomic<Attendance> attends_{Attendance::None};
};

}  // namespace tutti
