// What this rank has been doing, written by the thread that runs calls and read by the one that answers inquiries.
#pragma once

#include <array>
#include <atomic>
#include <optional>

#include "src/control/bootstrap_node.hpp"

namespace tutti {

/// enter/leave/wait: one thread.  state: any thread, at any time.
class CallLog {
 public:
  void enter(uint64_t sequence, const Fingerprint& call) {
    Entry& entry = entries_[sequence % kEntries];
    entry.sequence.store(0, std::memory_order_relaxed);  // a reader in between sees no such entry
    // Release, for the acquire in state(): who sees a word of the new call sees the 0 above, too.
    entry.head.store(call.head, std::memory_order_release);
    entry.count.store(call.count, std::memory_order_release);
    entry.sequence.store(sequence, std::memory_order_release);
    hash_ = (hash_ ^ call.head) * 0x9e3779b97f4a7c15 ^ call.count;
    inside_.store(true, std::memory_order_relaxed);
    entered_.store(sequence, std::memory_order_release);  // pairs with state(): the entry is there before its number
  }
  void leave() { inside_.store(false, std::memory_order_release); }
  /// The newest call waits for this rank, or for none (-1).
  void waitFor(int rank) {
    const uint64_t call = entered_.load(std::memory_order_relaxed) << 32;
    waitingOn_.store(call | static_cast<uint32_t>(rank), std::memory_order_relaxed);
  }
  /// A send or receive waits, or none does.
  void waitFor(const std::optional<MessageWait>& message);
  /// The caller is in such a call, until it is in None.
  void attend(Attendance call) { attends_.store(call, std::memory_order_relaxed); }
  /// A checksum of all calls so far.  Who has the turn.
  uint64_t history() const { return hash_; }
  RankState state() const;
  /// The newest call, and whether this rank is in it.  Any thread.  If not inside, every call up to `entered` is over.
  struct Place {
    uint64_t entered = 0;
    bool inside = false;
  };
  Place place() const {
    const uint64_t before = entered_.load(std::memory_order_acquire);
    const bool inside = inside_.load(std::memory_order_acquire);  // partner: leave()
    return {before, inside || entered_.load(std::memory_order_relaxed) != before};
  }
  /// All calls so far, as one text that ranks can compare.  Who has the turn.
  std::string digest() const { return cat(entered_.load(std::memory_order_relaxed), "/", hash_); }

 private:
  std::optional<MessageWait> message() const;

  static constexpr size_t kEntries = 64;
  struct Entry {
    std::atomic<uint64_t> sequence{0}, head{0}, count{0};
  };
  std::array<Entry, kEntries> entries_{};
  uint64_t hash_ = 0;
  std::atomic<uint64_t> entered_{0};
  std::atomic<bool> inside_{false};
  std::atomic<uint64_t> waitingOn_{UINT32_MAX};  // the call's number, 32 bits, and the rank
  struct Message {
    std::atomic<uint64_t> tag{0};  // 0: none; else another for every wait: a number, the direction, the peer
    std::atomic<uint64_t> head{0}, count{0};
  };
  Message message_;
  uint64_t messageWaits_ = 0;
  std::atomic<Attendance> attends_{Attendance::None};
};

}  // namespace tutti
