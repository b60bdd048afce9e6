// A pair of fences for two sides of which one runs often and the other seldom: what both cost falls on the seldom one.
//
// As two fences of std::memory_order_seq_cst: where one side stores a, lightFence(), loads b, and the other stores b,
// heavyFence(), loads a, one of them sees the other's store.  The threads of one process only (membarrier(2), Linux
// 4.14; where that is refused, both are ordinary fences).
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
