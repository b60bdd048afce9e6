// The flight record of a communicator that has failed, written once: at the news, and before a call returns the error.
#pragma once

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

  /// Begins, and does not wait: a file may take long.
  void begin(const Status& why);
  /// Returns when it has been written, where it is to be.
  void write(const Status& why);

 private:
  bool wanted() const { return recorder_.dumpsFailures() || recorder_.traces(); }

  FlightRecorder& recorder_;
  std::once_flag once_;
  std::mutex mutex_;  // guards the next
  std::thread writer_;
};

}  // namespace tutti
