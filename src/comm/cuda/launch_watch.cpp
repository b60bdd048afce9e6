#include "src/comm/cuda/launch_watch.hpp"

#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace tutti {

bool LaunchWatch::look() {
  const cuda::ResidentMemory& m = *memory_;
  const uint32_t started = m.started(), reached = m.reached();
  if (started == m.launches.load(std::memory_order_acquire)) return false;
  const int64_t now = nowNs();
  if (reached == started || reached != reached_) {
    reached_ = reached;
    sinceNs_ = now;
    return true;
  }
  if (now - sinceNs_ < kHeldUpNs || m.heldUp.load(std::memory_order_relaxed)) return true;
  memory_->heldUp.store(true, std::memory_order_release);
  TUTTI_WARN(
      "cuda", "a launch of ", m.blocks.load(std::memory_order_relaxed), " blocks has not started on CUDA device ",
      device_, " for ", kHeldUpNs / 1'000'000, " ms: it starts when all of its blocks have room at once, and other ",
      "kernels hold the multiprocessors.  It waits until they end; if they wait for this call, neither ever ends.  ",
      fallsBack_ ? "Of the calls to come this communicator enqueues those that would need that by streams"
                 : "TUTTI_CUDA_EXECUTOR=stream needs no such room");
  return true;
}

}  // namespace tutti
