// Which cores the two threads of a measurement are on.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstddef>

namespace tutti {

/// Keeps this thread on its core while this lives.  On a busy machine the scheduler else brings both ends of a message
/// to one core, and its turns are measured.
class OnThisCore {
 public:
  OnThisCore() {
    cpu_set_t here;
    CPU_ZERO(&here);
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE) return;
    CPU_SET(static_cast<size_t>(cpu), &here);
    bound_ = sched_getaffinity(0, sizeof before_, &before_) == 0 && sched_setaffinity(0, sizeof here, &here) == 0;
  }
  OnThisCore(const OnThisCore&) = delete;
  OnThisCore& operator=(const OnThisCore&) = delete;
  bool bound() const { return bound_; }
  ~OnThisCore() {
    if (bound_) (void)sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_ = {};
  bool bound_ = false;
};

// A rank that is bound to one core measures with both threads on it otherwise, which says nothing of its peers.  A new
// thread begins on the core of its maker, which OnThisCore keeps there.
inline void leaveCore() {
  cpu_set_t others;
  CPU_ZERO(&others);
  const int here = sched_getcpu();
  for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF) && cpu < CPU_SETSIZE; ++cpu) {
    if (cpu != here) CPU_SET(static_cast<size_t>(cpu), &others);
  }
  if (CPU_COUNT(&others) > 0) (void)sched_setaffinity(0, sizeof others, &others);
}

}  // namespace tutti
