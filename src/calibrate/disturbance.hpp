// How much other programs had of this process's processors while something was measured.
#pragma once

#include <cstdint>

namespace tutti {

/// From its making on.
class Disturbance {
 public:
  Disturbance();
  /// Part of the time of the processors that this process may use, 0 to 1: of other programs, of the kernel for them,
  /// and of other virtual machines.  0 where the system does not tell (no /proc/stat).
  double share() const;

 private:
  int64_t busyNs_ = -1;  // of the processors, at the beginning; -1: unknown
  int64_t ownNs_ = 0;
  int64_t startNs_ = 0;
};

/// The part of the online processors that others than this thread have now, 0 to 1: the least of some looks within
/// 20 ms, since ranks of the same job may just be starting.  By /proc/stat (proc(5)); 0 where the system does not tell.
double othersShareNow();

}  // namespace tutti
