// Two fences, one for each side of a handshake between threads of a process: the light one costs nothing, the heavy one
// microseconds.
//
// One side stores a, calls lightFence() and loads b.  The other stores b, calls heavyFence() and loads a.  At least one
// of the two loads sees the other side's store, as with two fences of std::memory_order_seq_cst.  The heavy fence uses
// membarrier(2), Linux 4.14; where that is refused, both are ordinary fences.
#pragma once

#include <atomic>

namespace tutti {

/// Whether heavyFence() makes every thread of the process pass a fence; written once, before threads make calls.
extern bool heavyFenceReachesAll;

inline void lightFence() {
  if (heavyFenceReachesAll) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

/// Takes some microseconds.  False: the system has come to refuse it, and the other side's fences reach nothing; what
/// waits has to look again by itself.
bool heavyFence();

}  // namespace tutti
