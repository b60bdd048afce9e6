#include "src/exec/time_slice.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti {
namespace {

// The kernel's struct sched_attr as of its first version; linux/sched/types.h does not go together with sched.h.
struct SchedAttributes {
  uint32_t size = sizeof(SchedAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtimeNs = 0;  // under the ordinary policies: the slice
  uint64_t deadlineNs = 0;
  uint64_t periodNs = 0;
};
static_assert(sizeof(SchedAttributes) == 48);

bool read(SchedAttributes* attributes) {
  if (syscall(SYS_sched_getattr, 0, attributes, sizeof *attributes, 0) != 0) return false;
  return attributes->policy == SCHED_OTHER || attributes->policy == SCHED_BATCH;
}

}  // namespace

uint64_t timeSliceNs() {
  SchedAttributes now;
  return read(&now) ? now.runtimeNs : 0;
}

void shortenTimeSlice(int us) {
  SchedAttributes now;
  const uint64_t wantedNs = static_cast<uint64_t>(us) * 1000;
  if (us <= 0 || !read(&now) || now.runtimeNs <= wantedNs) return;
  now.size = sizeof now;
  now.runtimeNs = wantedNs;
  (void)syscall(SYS_sched_setattr, 0, &now, 0);  // where it is forbidden the thread waits as before
}

}  // namespace tutti
