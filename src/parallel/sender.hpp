// What goes beside a layer owner's computation: on the host in a thread of the layer's, on CUDA on a stream of its own.
#pragma once

#include "src/parallel/memory.hpp"
#include "src/parallel/worker.hpp"

namespace tutti::parallel {

/// Runs tasks in order.  Used by the layer's owner.
class Sender {
 public:
  /// beside: else tasks run when they are given.
  Sender(Device& device, bool beside) : device_(&device), beside_(beside) {
    if (beside && device.onHost()) worker_ = std::make_unique<Worker>();
  }

  /// A task that was sent.  Copies stand for the same one.
  struct Sent {
    std::shared_future<void> ran;
    Device::Mark mark;
    bool valid() const { return ran.valid(); }
  };
  /// A failure goes to who waits for this one.
  Sent send(const std::function<void()>& task) {
    if (worker_ != nullptr) return {worker_->submit(timed(task)), nullptr};
    std::packaged_task<void()> now(task);
    Device::Mark mark;
    const auto start = std::chrono::steady_clock::now();
    if (beside_) {
      mark = orThrow(device_->beside([&now] { now(); }));
    } else {
      now();
    }
    count(start);
    return {now.get_future().share(), mark};
  }
  /// The owner's work follows it.
  void wait(const Sent& sent) {
    sent.ran.get();
    orThrow(device_->follow(sent.mark));
  }

  /// As send, for tasks that are waited for together: none runs after one that fails.
  void post(const std::function<void()>& task) {
    if (worker_ != nullptr) {
      worker_->post(timed(task));
    } else {
      last_ = send(task);
      last_.ran.get();
    }
  }
  /// For all that were posted; throws what the first failing one threw.
  void waitForPosted() {
    if (worker_ != nullptr) return worker_->wait();
    orThrow(device_->follow(last_.mark));
    last_ = {};
  }

  /// Whether tasks run in a thread, which takes time from nobody.
  bool threaded() const { return worker_ != nullptr; }
  /// Milliseconds that tasks have taken since they were last set to 0.  On CUDA 0: they take a stream's time.
  double busyMs = 0;

 private:
  std::function<void()> timed(const std::function<void()>& task) {
    return [this, task] {
      const auto start = std::chrono::steady_clock::now();
      task();
      count(start);
    };
  }
  void count(std::chrono::steady_clock::time_point start) {
    if (device_->onHost()) busyMs += millisecondsSince(start);
  }

  Device* device_;
  bool beside_;
  Sent last_;
  std::unique_ptr<Worker> worker_;  // last: ends before what it works on
};

}  // namespace tutti::parallel
