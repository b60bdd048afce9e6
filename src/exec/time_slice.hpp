// What a thread asks of the scheduler while it shares its core with programs that are not of the job.
//
// Ranks that share a core hand it on by yielding, in less than a microsecond.  But who yields gives up the rest of its
// slice, since Linux 6.6 also of the time that is due to it: beside another program that computes, every yield costs
// the milliseconds of a slice.  With a slice that is short (Linux 6.12, `sched_setattr`) it costs that much less, and
// the thread is soon put in front of those whose slices are long.  It gets no larger share of the core.  Among ranks
// alone short slices make a yield half as dear again, so they are asked for only where yields turn out to be slow.
#pragma once

#include <cstdint>

namespace tutti {

/// The slice of the calling thread, in nanoseconds; 0 where the kernel has none (before Linux 6.12), or where the
/// thread is not under the ordinary policies.
uint64_t timeSliceNs();

/// Slices of so long for the calling thread (the kernel takes 100 us and more); its policy and priority stay.  False if
/// the kernel knows or permits nothing of the kind.
bool setTimeSliceNs(uint64_t ns);

/// Watches how long the yields of one thread take and keeps its slice short while somebody else is on the core.
class YieldWatch {
 public:
  /// Whether the next yield is to be timed: one in a few is, as a look at the clock costs a tenth of it.
  bool due() { return yields_++ % kYieldsPerLook == 0; }
  /// A yield took so long.  sliceNs: what to ask for where that is too long; 0: nothing.
  void note(int64_t yieldNs, uint64_t sliceNs);

 private:
  static constexpr uint32_t kYieldsPerLook = 4;

  uint32_t yields_ = 0;
  uint32_t calm_ = 0;        // timed yields in a row that were quick
  uint32_t patience_ = 256;  // so many, and the neighbour is gone
  uint64_t ordinaryNs_ = 0;  // the slice before it was made short; 0: it is not
};

}  // namespace tutti
