// The thread team and the memory model of walk_body.hpp for host threads that play a block.
#pragma once

#include <sched.h>

#include <condition_variable>
#include <mutex>

#include "src/exec/kernels/walk_team.hpp"

namespace tutti::kernels {

/// A barrier for host threads that play a block.
class HostBarrier {
 public:
  explicit HostBarrier(uint32_t n) : n_(n) {}
  bool all(bool mine) {
    if (n_ == 1) return mine;
    std::unique_lock lock(mutex_);
    verdict_ = verdict_ && mine;
    const uint64_t round = round_;
    if (++arrived_ == n_) {
      arrived_ = 0;
      last_ = verdict_;
      verdict_ = true;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
    return last_;
  }

 private:
  const uint32_t n_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t arrived_ = 0;
  uint64_t round_ = 0;
  bool verdict_ = true;
  bool last_ = true;
};

/// Thread `me` of `n` that play a block.
struct HostBlock {
  uint32_t me = 0;
  uint32_t n = 1;
  HostBarrier* barrier = nullptr;
  uint32_t index() const { return me; }
  uint32_t size() const { return n; }
  void sync() const { barrier->all(true); }
  bool all(bool mine) const { return barrier->all(mine); }
};

struct HostMemory {
  static uint64_t acquire(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
  static void release(uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
  static uint64_t loadPacket(const uint64_t* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
  static void storePacket(uint64_t* to, uint64_t packet) { __atomic_store_n(to, packet, __ATOMIC_RELAXED); }
  static Line loadLine(const Line* from) { return {loadPacket(&from->low), loadPacket(&from->high)}; }
  static void storeLine(Line* to, const Line& line) {
    storePacket(&to->low, line.low);
    storePacket(&to->high, line.high);
  }
  static uint32_t relaxed(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
  static void tell(uint32_t* word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }
};

class HostPatience {
 public:
  explicit HostPatience(const uint32_t* abort) : abort_(abort) {}
  bool over() {
    if (++looks_ % 16 != 0) return false;
    sched_yield();
    return HostMemory::relaxed(abort_) != 0;
  }

 private:
  const uint32_t* abort_;
  uint32_t looks_ = 0;
};

}  // namespace tutti::kernels
