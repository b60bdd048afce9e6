// What the system has counted of the calling thread's time.
#pragma once

#include <cstdint>
#include <optional>

namespace tutti {

/// Since the thread started.
struct ThreadTime {
  int64_t ranNs = 0;
  int64_t delayNs = 0;  // ready to run, without a core
  int64_t turns = 0;    // how often it was given one
};

/// Of the calling thread, by /proc (Linux, Documentation/scheduler/sched-stats.rst).  Nothing: the system does not
/// tell.
std::optional<ThreadTime> timeOfThread();

}  // namespace tutti
