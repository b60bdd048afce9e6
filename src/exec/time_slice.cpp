#include "src/exec/time_slice.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

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

// A rank's turn among ranks that move small messages is far shorter; those that move large ones may take as long, and
// then a slice is nothing beside it.
constexpr int64_t kSlowYieldNs = 500'000;
// With short slices.
constexpr int64_t kQuickYieldNs = 50'000;
constexpr uint32_t kMostPatience = 1 << 14;

}  // namespace

uint64_t timeSliceNs() {
  SchedAttributes now;
  return read(&now) ? now.runtimeNs : 0;
}

bool setTimeSliceNs(uint64_t ns) {
  SchedAttributes now;
  if (!read(&now)) return false;
  now.size = sizeof now;
  now.runtimeNs = ns;
  return syscall(SYS_sched_setattr, 0, &now, 0) == 0;
}

void YieldWatch::note(int64_t yieldNs, uint64_t sliceNs) {
  if (ordinaryNs_ == 0) {
    if (yieldNs < kSlowYieldNs || sliceNs == 0) return;
    const uint64_t now = timeSliceNs();
    if (now > sliceNs && setTimeSliceNs(sliceNs)) ordinaryNs_ = now;
    calm_ = 0;
    return;
  }
  calm_ = yieldNs < kQuickYieldNs ? calm_ + 1 : 0;
  if (calm_ < patience_) return;
  setTimeSliceNs(ordinaryNs_);
  ordinaryNs_ = 0;
  patience_ = std::min(2 * patience_, kMostPatience);  // where neighbours come and go, each mistake costs a slow yield
}

}  // namespace tutti
