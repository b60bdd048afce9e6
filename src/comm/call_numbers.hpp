// How a communicator's calls are numbered: collectives in one row, messages of each pair and direction in theirs.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti {

/// Alike on all ranks that make the same calls.  Only with the turn.
class CallNumbers {
 public:
  void resize(int nRanks) {
    sendsTo_.resize(static_cast<size_t>(nRanks));
    receivesFrom_.resize(static_cast<size_t>(nRanks));
  }
  /// From 1; written into the collective's fingerprint and the log.
  uint64_t nextCollective() { return ++collectives_; }
  /// The last one's.
  uint64_t collective() const { return collectives_; }
  /// From 0.
  uint32_t nextMessage(int peer, bool isSend) {
    return (isSend ? sendsTo_ : receivesFrom_)[static_cast<size_t>(peer)]++;
  }

 private:
  uint64_t collectives_ = 0;
  std::vector<uint32_t> sendsTo_, receivesFrom_;  // by peer
};

}  // namespace tutti
