// Runs one collective: its plan's lanes side by side, with what a call needs before (PreMulSum's scaling, a copy)
// and after (avg's division).
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "src/exec/lane_run.hpp"
#include "src/exec/pre_post_ops.hpp"

namespace tutti {

/// One thread at a time; reusable: begin(), step() until Done, begin() again.
class CollectiveRun final : public Task {
 public:
  explicit CollectiveRun(const Plan& plan);

  void begin(const CallBuffers& buffers, const PrePostOps& prePost);
  /// A call that is its schedule alone.
  void begin(const CallBuffers& buffers) {
    buffers_ = buffers;
    divides_ = false;
    begun_ = Status();
    for (LaneRun& lane : lanes_) lane.begin(buffers_);
  }
  Result<Progress> step() override {
    return lanes_.size() == 1 && !divides_ && begun_.ok() ? lanes_[0].step() : stepLanes();
  }
  /// Whether others read some of the call's memory where it lies, so that it was over only when they had.
  bool lent() const {
    return std::ranges::any_of(lanes_, [](const LaneRun& lane) { return lane.lent(); });
  }
  int waitingOn() const override;
  /// The same for one lane; -1 if it is done.
  int waitingOn(size_t lane) const { return lanes_[lane].isDone() ? -1 : lanes_[lane].waitingOn(); }
  void abandon() override;

 private:
  Result<Progress> stepLanes();

  Worker* worker_;
  std::vector<LaneRun> lanes_;
  CallBuffers buffers_;
  Status begun_;  // what became of begin(), for the first step to say
  bool divides_ = false;
  PrePostOps prePost_;  // of a call that has such
};

}  // namespace tutti
