#include "transport/shm/doorbell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tutti::shm {
namespace {

// Shared futexes (no FUTEX_PRIVATE_FLAG): waiter and waker are of different processes.
long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void wake(Doorbell& bell) {
  bell.rings.fetch_add(1, std::memory_order_release);  // partner: prepare(); a changed word makes FUTEX_WAIT return
  futex(bell.rings, FUTEX_WAKE, INT_MAX, nullptr);
}

void FutexSleeper::prepare() {
  Doorbell& bell = segment_->bell();
  // The count first: a ring between here and sleep() then changes it, and sleep() returns at once.
  seen_ = bell.rings.load(std::memory_order_acquire);  // partner: wake()
  // seq_cst, so that the caller's last look at the endpoints comes after it.
  bell.sleeping.store(1, std::memory_order_seq_cst);
}

void FutexSleeper::sleep(int us) {
  Doorbell& bell = segment_->bell();
  if (us > 0) {
    const timespec timeout{us / 1'000'000, us % 1'000'000 * 1000L};
    futex(bell.rings, FUTEX_WAIT, seen_, &timeout);
  }
  cancel();
}

void FutexSleeper::cancel() { segment_->bell().sleeping.store(0, std::memory_order_relaxed); }

}  // namespace tutti::shm
