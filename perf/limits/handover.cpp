// How long it takes until another core, or another thread on the same core, goes on.
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>

#include "perf/limits/measure.hpp"

namespace tutti::limits {
namespace {

constexpr int kTrials = 40;

struct alignas(128) Word {
  std::atomic<uint32_t> value{0};
};

void spin() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void sleepUntil(std::atomic<uint32_t>& word, uint32_t wanted) {
  for (;;) {
    const uint32_t seen = word.load(std::memory_order_acquire);
    if (seen >= wanted) return;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  }
}

void wake(std::atomic<uint32_t>& word, uint32_t value) {
  word.store(value, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// One way, in microseconds: the best trial of round trips between two threads, halved.
/// wait(word, value) returns once the word has reached the value, pass(word, value) sets it.
template <class Wait, class Pass>
double oneWayUs(int cpuA, int cpuB, uint32_t rounds, Wait wait, Pass pass) {
  Word there, back;
  const uint32_t total = rounds * kTrials;
  std::thread other([&] {
    pinTo(cpuB);
    for (uint32_t i = 1; i <= total; ++i) {
      wait(there.value, i);
      pass(back.value, i);
    }
  });
  pinTo(cpuA);
  double best = 1e30;
  for (uint32_t trial = 0, i = 0; trial < kTrials; ++trial) {
    const double start = nowUs();
    for (uint32_t r = 0; r < rounds; ++r) {
      pass(there.value, ++i);
      wait(back.value, i);
    }
    best = std::min(best, (nowUs() - start) / rounds / 2);
  }
  other.join();
  return best;
}

void report(const char* what, double us) { std::printf("latency what=%s us=%.4f\n", what, us); }

}  // namespace

void measureHandOver(const std::vector<int>& cpus) {
  const auto store = [](std::atomic<uint32_t>& word, uint32_t v) { word.store(v, std::memory_order_release); };
  const auto yielding = [](std::atomic<uint32_t>& word, uint32_t v) {
    while (word.load(std::memory_order_acquire) < v) sched_yield();
  };
  // Two threads of one cpu take turns: what every rank pays once per operation when there are more ranks than cpus.
  report("yield_same_cpu", oneWayUs(cpus[0], cpus[0], 300, yielding, store));
  report("futex_same_cpu", oneWayUs(cpus[0], cpus[0], 200, sleepUntil, wake));
  if (cpus.size() < 2) return;
  const auto spinning = [](std::atomic<uint32_t>& word, uint32_t v) {
    for (uint64_t n = 1; word.load(std::memory_order_acquire) < v; ++n) {
      // A partner that has lost its cpu comes back sooner if others finish sooner; never reached on a quiet machine.
      if (n % 100000 == 0) sched_yield();
      spin();
    }
  };
  report("line_one_way", oneWayUs(cpus[0], cpus[1], 1000, spinning, store));
  report("futex_other_cpu", oneWayUs(cpus[0], cpus[1], 40, sleepUntil, wake));
}

}  // namespace tutti::limits
