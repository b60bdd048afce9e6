#include "perf/compare/meeting.hpp"

#include <sched.h>

namespace tutti::compare {

void Meeting::wait() {
  const uint32_t round = words_->round.load(std::memory_order_relaxed);
  if (words_->come.fetch_add(1, std::memory_order_acq_rel) + 1 == nRanks_) {
    words_->come.store(0, std::memory_order_relaxed);
    words_->round.store(round + 1, std::memory_order_release);  // with the load below: come is 0 again
    return;
  }
  while (words_->round.load(std::memory_order_acquire) == round) {
    if (yields_) sched_yield();
  }
}

}  // namespace tutti::compare
