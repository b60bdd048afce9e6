#include "src/comm/rank_waits.hpp"

namespace tutti {

void RankWaits::waitFor(const std::optional<MessageWait>& message) {
  message_.tag.store(0, std::memory_order_relaxed);  // a reader in between sees none
  if (!message) return;
  // Release, for the acquire in message(): who sees a word of the new wait sees the 0 above, too.
  message_.head.store(message->call.head, std::memory_order_release);
  message_.count.store(message->call.count, std::memory_order_release);
  const uint64_t which = (++messageWaits_ << 32) | (uint64_t{message->isSend} << 31);
  message_.tag.store(which | static_cast<uint32_t>(message->peer + 1), std::memory_order_release);
}

std::optional<MessageWait> RankWaits::message() const {
  constexpr uint64_t kSend = uint64_t{1} << 31;
  const uint64_t tag = message_.tag.load(std::memory_order_acquire);
  const Fingerprint call{message_.head.load(std::memory_order_acquire), message_.count.load(std::memory_order_acquire)};
  if (tag == 0 || message_.tag.load(std::memory_order_relaxed) != tag) return {};
  return MessageWait{static_cast<int32_t>(tag & (kSend - 1)) - 1, (tag & kSend) != 0, call};
}

}  // namespace tutti
