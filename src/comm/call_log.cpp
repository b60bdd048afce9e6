#include "src/comm/call_log.hpp"

namespace tutti {

void CallLog::waitFor(const std::optional<MessageWait>& message) {
  message_.tag.store(0, std::memory_order_relaxed);  // a reader in between sees none
  if (!message) return;
  message_.head.store(message->call.head, std::memory_order_release);  // pairs with message(): as in enter()
  message_.count.store(message->call.count, std::memory_order_release);
  const uint64_t which = (++messageWaits_ << 32) | (uint64_t{message->isSend} << 31);
  message_.tag.store(which | static_cast<uint32_t>(message->peer + 1), std::memory_order_release);
}

std::optional<MessageWait> CallLog::message() const {
  constexpr uint64_t kSend = uint64_t{1} << 31;
  const uint64_t tag = message_.tag.load(std::memory_order_acquire);
  const Fingerprint call{message_.head.load(std::memory_order_acquire), message_.count.load(std::memory_order_acquire)};
  if (tag == 0 || message_.tag.load(std::memory_order_relaxed) != tag) return {};
  return MessageWait{static_cast<int32_t>(tag & (kSend - 1)) - 1, (tag & kSend) != 0, call};
}

RankState CallLog::state() const {
  RankState state;
  state.entered = entered_.load(std::memory_order_acquire);
  state.inside = inside_.load(std::memory_order_acquire);
  const uint64_t wait = waitingOn_.load(std::memory_order_relaxed);
  const bool ofThis = wait >> 32 == (state.entered & UINT32_MAX);
  state.waitingOn = state.inside && ofThis ? static_cast<int32_t>(static_cast<uint32_t>(wait)) : -1;
  state.attends = attends_.load(std::memory_order_relaxed);
  state.message = message();
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
