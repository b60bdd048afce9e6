// The two fences between two threads, as whoever finishes and whoever waits use them.
#include "src/base/asymmetric_fence.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "src/base/clock.hpp"

namespace tutti {
namespace {

constexpr int kRounds = 200'000;
constexpr int64_t kMostNs = 2'000'000'000;  // a machine of one core takes a slice of time for each

constexpr int kEnd = kRounds + 1;

/// A word on a cache line of its own.
struct alignas(64) Word {
  std::atomic<int> value{0};
};

TEST_CASE("of two threads that write and then read, one sees the other's write, whichever fence it has") {
  Word mine, theirs, round, over;
  int seenByOther = 0, neither = 0;
  std::thread other([&] {
    for (int i = 1;; ++i) {
      while (round.value.load(std::memory_order_acquire) < i) {
      }
      if (round.value.load(std::memory_order_relaxed) == kEnd) return;
      theirs.value.store(i, std::memory_order_relaxed);
      lightFence();
      seenByOther = mine.value.load(std::memory_order_relaxed);
      over.value.store(i, std::memory_order_release);
    }
  });
  const int64_t end = nowNs() + kMostNs;
  for (int i = 1; i <= kRounds && nowNs() < end; ++i) {
    round.value.store(i, std::memory_order_release);
    // About as long as the other takes to see the round, so that both write at once now and then.
    for (int pause = 0; pause < i % 251; ++pause) std::atomic_signal_fence(std::memory_order_seq_cst);
    mine.value.store(i, std::memory_order_relaxed);
    const bool reached = heavyFence();
    const int seen = theirs.value.load(std::memory_order_relaxed);
    while (over.value.load(std::memory_order_acquire) != i) {
    }
    neither += reached && seen != i && seenByOther != i ? 1 : 0;
  }
  round.value.store(kEnd, std::memory_order_release);
  other.join();
  CHECK(neither == 0);
}

}  // namespace
}  // namespace tutti
