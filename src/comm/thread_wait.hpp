// What a thread waits in, told by the other communicators that it has made: ranks that use two communicators in
// opposite order wait for each other in both, and each of these alone would say that they are in no call.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/control/bootstrap_node.hpp"
#include "src/recorder/flight_recorder.hpp"

namespace tutti {

/// Any thread, where nothing else is said.
class ThreadWait {
 public:
  struct Wait {
    std::string text{};         // empty: it waits in no call
    uint64_t communicator = 0;  // of that call
    CommunicatorCall call{};    // which ends on no rank before all have entered it; else none
    bool over = false;          // it ended in an error, and the thread has waited in nothing since
  };
  // Its own thread only.
  void set(Wait wait) {
    const std::lock_guard lock(mutex_);
    wait_ = std::move(wait);
    told_ = true;
  }
  void endInError() {
    const std::lock_guard lock(mutex_);
    wait_.over = true;
    told_ = true;
  }
  /// It waits in nothing.  Costs nothing where nothing else was told, as after all short waits.
  void clear() {
    if (!told_) return;
    const std::lock_guard lock(mutex_);
    wait_ = {};
    told_ = false;
  }
  // Any thread.
  Wait wait() const {
    const std::lock_guard lock(mutex_);
    return wait_;
  }

  /// A communicator that this thread has made, until it is forgotten.  Borrowed; shared: whether other threads use it.
  void add(uint64_t communicator, const FlightRecorder* recorder, const std::atomic<bool>* shared) {
    const std::lock_guard lock(mutex_);
    made_.push_back({communicator, recorder, shared});
  }
  void forget(const FlightRecorder* recorder) {
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [&](const Made& made) { return made.recorder == recorder; });
  }
  /// The newest collectives of those that no other thread has used.
  std::vector<CommunicatorCall> newest() const {
    std::vector<CommunicatorCall> calls;
    const std::lock_guard lock(mutex_);
    for (const Made& made : made_) {
      const uint64_t entered = made.recorder->place().entered;
      // Behind the count, so that the thread which has raised it has been noticed.
      if (!made.shared->load(std::memory_order_acquire)) calls.push_back({made.communicator, entered});
      if (calls.size() == kMaxOtherCalls) break;
    }
    return calls;
  }

  /// A communicator of the thread has failed: what it waits in elsewhere may be part of that.
  void lookSoon() { looksSoon_.store(true, std::memory_order_relaxed); }
  /// Once for each time that it was told; its own thread.
  bool looksNow() {
    return looksSoon_.load(std::memory_order_relaxed) && looksSoon_.exchange(false, std::memory_order_relaxed);
  }

  static const std::shared_ptr<ThreadWait>& ofThisThread() {
    static thread_local const std::shared_ptr<ThreadWait> own = std::make_shared<ThreadWait>();
    return own;
  }

 private:
  struct Made {
    uint64_t communicator;
    const FlightRecorder* recorder;
    const std::atomic<bool>* shared;
  };
  bool told_ = false;  // its own thread's: wait_ is not empty
  mutable std::mutex mutex_;
  Wait wait_;
  std::vector<Made> made_;
  std::atomic<bool> looksSoon_{false};
};

}  // namespace tutti
