// Waking a rank that sleeps: a futex word in its segment.
//
// A sender looks at the owner's `sleeping` word after it has posted, and makes a system call only if it is set.  There
// is no fence between the two (it would cost every message what one wake-up in a million gains): a store to a control
// line may still be on its way out while `sleeping` is read as 0, just as the owner sets it and looks at the endpoints
// for the last time.  The owner then sleeps until its own time limit, which is why sleep() always has one.
#pragma once

#include "transport/shm/segment.hpp"
#include "transport/transport.hpp"

namespace tutti::shm {

/// Wakes the owner of `bell`.  Out of line: rare.
void wake(Doorbell& bell);

/// Called after every post and every credit.  Any thread.
inline void ring(Doorbell& bell) {
  if (bell.sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
    wake(bell);
}

/// The owner's side.  One thread at a time.
class FutexSleeper final : public Sleeper {
 public:
  explicit FutexSleeper(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}
  void prepare() override;
  void sleep(int us) override;
  void cancel() override;
  void ring() override { shm::ring(segment_->bell()); }

 private:
  std::shared_ptr<Segment> segment_;
  uint32_t seen_ = 0;
};

}  // namespace tutti::shm
