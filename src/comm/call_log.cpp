#include "src/comm/call_log.hpp"

namespace tutti {

RankState CallLog::state() const {
  RankState state;
  state.entered = entered_.load(std::memory_order_acquire);
  state.inside = inside_.load(std::memory_order_acquire);
  state.waitingOn = state.inside ? waitingOn_.load(std::memory_order_relaxed) : -1;
  const uint64_t first = state.entered >= kEntries ? state.entered - kEntries + 1 : 1;
  for (uint64_t sequence = first; sequence <= state.entered; ++sequence) {
    const Entry& entry = entries_[sequence % kEntries];
    const uint64_t before = entry.sequence.load(std::memory_order_acquire);
    const Fingerprint call{entry.head.load(std::memory_order_acquire), entry.count.load(std::memory_order_acquire)};
    const bool whole = before == sequence && entry.sequence.load(std::memory_order_relaxed) == sequence;
    if (whole) state.recent.emplace_back(sequence, call);
  }
  return state;
}

}  // namespace tutti
