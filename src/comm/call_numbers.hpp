// How a communicator's calls are numbered: collectives in one row, messages of each pair and direction in theirs.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "src/control/bootstrap_node.hpp"

namespace tutti {

/// Alike on all ranks that make the same calls.  Only with the turn, but for pairs().
class CallNumbers {
 public:
  void resize(int nRanks) {
    sendsTo_ = std::vector<std::atomic<uint32_t>>(static_cast<size_t>(nRanks));
    receivesFrom_ = std::vector<std::atomic<uint32_t>>(static_cast<size_t>(nRanks));
  }
  /// From 1; written into the collective's fingerprint and the log.
  uint64_t nextCollective() { return ++collectives_; }
  /// The last one's.
  uint64_t collective() const { return collectives_; }
  /// From 0.
  uint32_t nextMessage(int peer, bool isSend) {
    std::atomic<uint32_t>& count = (isSend ? sendsTo_ : receivesFrom_)[static_cast<size_t>(peer)];
    const uint32_t number = count.load(std::memory_order_relaxed);
    count.store(number + 1, std::memory_order_relaxed);
    return number;
  }
  /// Messages begun so far, by peer, kMaxPairCounts at most.  Any thread, once resize() has returned.
  std::vector<PairCount> pairs() const {
    std::vector<PairCount> some;
    for (size_t peer = 0; peer < sendsTo_.size() && some.size() < kMaxPairCounts; ++peer) {
      const uint32_t sends = sendsTo_[peer].load(std::memory_order_relaxed);
      const uint32_t receives = receivesFrom_[peer].load(std::memory_order_relaxed);
      if (sends != 0 || receives != 0) some.push_back({static_cast<int32_t>(peer), sends, receives});
    }
    return some;
  }

 private:
  uint64_t collectives_ = 0;
  std::vector<std::atomic<uint32_t>> sendsTo_, receivesFrom_;  // by peer
};

}  // namespace tutti
