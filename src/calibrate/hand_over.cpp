#include "src/calibrate/hand_over.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "src/base/clock.hpp"
#include "src/base/threads.hpp"
#include "src/calibrate/cores.hpp"

namespace tutti {
namespace {

constexpr int kTries = 8;
constexpr int kTriesHandOvers = 80;
constexpr int64_t kMostNs = 20 * kMs;

/// Two threads of one core that hand it to each other.
class Alternation {
 public:
  /// What thread 0 or 1 does.
  void take(int thread) {
    for (int i = thread; i <= kTries * kTriesHandOvers; i += 2) {
      while (next_.load(std::memory_order_acquire) != i) {
        if (nowNs() > endNs_) return;
        sched_yield();
      }
      if (i % kTriesHandOvers == 0) beganNs_[static_cast<size_t>(i / kTriesHandOvers)] = nowNs();
      next_.store(i + 1, std::memory_order_release);
    }
  }
  /// When both are through.
  double bestUs() const {
    int64_t bestNs = 0;
    for (size_t i = 0; i < kTries && beganNs_[i + 1] > 0; ++i) {
      const int64_t ns = beganNs_[i + 1] - beganNs_[i];
      bestNs = bestNs == 0 ? ns : std::min(bestNs, ns);
    }
    return static_cast<double>(bestNs) / 1e3 / kTriesHandOvers;
  }

 private:
  static_assert(kTriesHandOvers % 2 == 0, "tries begin with thread 0");
  const int64_t endNs_ = nowNs() + kMostNs;
  std::atomic<int> next_ = 0;
  std::array<int64_t, kTries + 1> beganNs_ = {};  // of each try; the last is the end of the one before
};

}  // namespace

double measureHandOver() {
  const OnThisCore here;  // and so is the thread that this one makes
  if (!here.bound()) return 0;
  Alternation alternation;
  const auto take = [&](int thread) {
    alternation.take(thread);
    return Status();
  };
  const bool ran =
      runTogether("measuring how ranks share a core", {[&] { return take(0); }, [&] { return take(1); }}).ok();
  return ran ? alternation.bestUs() : 0;
}

}  // namespace tutti
