// How long the scheduler lets a waiting thread run at a time.
//
// Ranks that share a core hand it on by yielding, in less than a microsecond.  But who yields gives up the rest of its
// slice, since Linux 6.6 also of the time that is due to it: beside another program of the same session (Linux shares
// processors among sessions first, where it is set to), every yield then costs the milliseconds of a slice.  With a
// slice that is short (Linux 6.12, `sched_setattr`) it costs that much less, and the thread is soon put in front of
// those whose slices are long.  It gets no larger share of the core by it.
#pragma once

#include <cstdint>

namespace tutti {

/// The slice of the calling thread, in nanoseconds; 0 where the kernel has none (before Linux 6.12), or where the
/// thread is not under the ordinary policies.
uint64_t timeSliceNs();

/// Slices of at most `us` microseconds (the kernel takes 100 and more) for the calling thread, from now on; its policy
/// and priority stay.  Nothing happens if us is 0, if its slices are as short already, or if the kernel knows or
/// permits nothing of the kind.
void shortenTimeSlice(int us);

}  // namespace tutti
