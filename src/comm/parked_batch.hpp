// Calls that have their place in a communicator's order and wait: for a stream, for a turn, for the rest of their
// group.
//
// What they wait for may be another communicator's business, and this one may end meanwhile.  So whoever ends it drops
// them, and does not have to wait for that.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "src/comm/handle.hpp"
#include "src/comm/launch.hpp"

namespace tutti {

/// The calls of one communicator in one group on one stream.  One thread at a time, but for drop().
class ParkedBatch {
 public:
  /// Takes the next place in the communicator's order.
  explicit ParkedBatch(const CommUse& comm)
      : handle_(comm.handle()->shared_from_this()),
        callOrder_(comm->calls().order),
        use_(comm),
        batch_(comm->executor().newBatch()) {
    ticket_ = callOrder_->take();
  }
  ParkedBatch(const ParkedBatch&) = delete;
  ParkedBatch& operator=(const ParkedBatch&) = delete;
  ~ParkedBatch() {
    if (resume()) drop();
  }

  tuttiComm* handle() const { return handle_.get(); }
  /// Not while it is parked.
  Batch& batch() { return *batch_; }

  /// From now on it is dropped if the communicator ends.  Ranks on CUDA devices keep it: its streams know of it.
  void park();
  bool hasTurn() const { return callOrder_->hasTurn(ticket_); }
  /// Waits for the communicator's turn.
  void awaitTurn() { callOrder_->await(ticket_); }
  /// The communicator is there until it is parked again or left.  False: it was dropped.
  bool resume();
  /// Not dropped, nor left.
  bool isThere() const { return batch_ != nullptr; }
  /// The calls are over: gives the turn back, and lets go of the communicator.  Nothing if that has happened.
  void leave();
  /// Why there is nothing to resume.
  Status failure() const { return handle_->abortState.failure(); }

 private:
  friend class Parking;
  void drop();

  std::shared_ptr<tuttiComm> handle_;
  std::shared_ptr<CallOrder> callOrder_;
  std::optional<CommUse> use_;
  std::unique_ptr<Batch> batch_;  // null: dropped or left
  uint64_t ticket_ = 0;
  bool parked_ = false;
};

/// A batch whose calls a proxy carries out, and which is never parked.
class ProxyJob : public ProgressJob {
 public:
  explicit ProxyJob(std::unique_ptr<ParkedBatch> batch) : batch_(std::move(batch)) {}
  Result<DrivenTask*> begin() override;
  Status end(Status result) override;

 private:
  std::unique_ptr<ParkedBatch> batch_;
  DrivenTask task_;
};

/// Calls of a graph that is replayed.  They take no turn: who captures makes them and the others in one order.
class ReplayJob : public ProgressJob {
 public:
  /// calls: borrowed.  dropped: called instead if the communicator has gone.
  ReplayJob(std::shared_ptr<tuttiComm> handle, const std::vector<Call>& calls, std::function<void()> dropped)
      : handle_(std::move(handle)), calls_(calls), dropped_(std::move(dropped)) {}
  Result<DrivenTask*> begin() override;
  Status end(Status result) override;

 private:
  std::shared_ptr<tuttiComm> handle_;
  const std::vector<Call>& calls_;
  std::function<void()> dropped_;
  std::optional<CommUse> use_;
  std::unique_ptr<Batch> batch_;
  DrivenTask task_;
};

/// Runs parked batches of different communicators together on this thread: waits for their turns, prepares, drives, and
/// leaves each as soon as it is over.  onStream: this thread is a stream's.  The first error, if any.
Status runBatches(std::span<const std::unique_ptr<ParkedBatch>> batches, bool onStream);

}  // namespace tutti
