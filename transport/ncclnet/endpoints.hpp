// The endpoints of one transport, which move only while they are asked to; and naps in between.
#pragma once

#include <vector>

#include "transport/fd_sleeper.hpp"

namespace tutti::ncclnet {

class Served {
 public:
  virtual ~Served() = default;
  /// Moves what it can; an error is told by the next call.  True if something moved.
  virtual bool goOn() = 0;
};

/// ring(): any thread.  The rest: the thread that uses the endpoints.
///
/// A plugin has nothing to sleep on, so a sleep is a nap: what comes meanwhile waits for its end.
class Endpoints final : public Sleeper {
 public:
  /// Errors: SystemError.
  static Result<std::shared_ptr<Endpoints>> create() {
    TUTTI_ASSIGN(auto bell, FdSleeper::create());
    return std::shared_ptr<Endpoints>(new Endpoints(std::move(bell)));
  }

  /// Borrowed until remove().
  void add(Served* endpoint) { all_.push_back(endpoint); }
  void remove(const Served* endpoint) { std::erase(all_, endpoint); }
  bool progress() {
    bool moved = false;
    for (Served* endpoint : all_) moved = endpoint->goOn() || moved;
    return moved;
  }

  void prepare() override { bell_->prepare(); }
  void sleep(int us) override {
    if (!progress()) bell_->sleep(std::min(us, kNapUs));
  }
  void cancel() override {}
  void ring() override { bell_->ring(); }

 private:
  static constexpr int kNapUs = 50;
  explicit Endpoints(std::shared_ptr<FdSleeper> bell) : bell_(std::move(bell)) {}

  const std::shared_ptr<FdSleeper> bell_;
  std::vector<Served*> all_;
};

}  // namespace tutti::ncclnet
