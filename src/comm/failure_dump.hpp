// The flight record of a communicator that has failed, written once: at the news, and before a call returns the error.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "src/base/status.hpp"
#include "src/recorder/flight_recorder.hpp"

namespace tutti {

/// Any thread.
class FailureDump {
 public:
  /// recorder: borrowed.
  explicit FailureDump(FlightRecorder& recorder) : recorder_(recorder) {}
  FailureDump(const FailureDump&) = delete;
  FailureDump& operator=(const FailureDump&) = delete;
  ~FailureDump();

  /// The recorder is open: what breaks the communicator earlier has no calls to tell of.
  void arm() { armed_.store(true, std::memory_order_release); }
  /// Begins, and does not wait: a file may take long.
  void begin(const Status& why);
  /// Returns when it has been written, where it is to be.
  void write(const Status& why);

 private:
  bool wanted() const {
    // Pairs with arm(): news may come from the I/O thread while the communicator is still being set up.
    return armed_.load(std::memory_order_acquire) && (recorder_.dumpsFailures() || recorder_.traces());
  }

  FlightRecorder& recorder_;
  std::atomic<bool> armed_{false};
  std::once_flag once_;
  std::mutex mutex_;  // guards the next
  std::thread writer_;
};

}  // namespace tutti
