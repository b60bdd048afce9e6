// Runs one collective: its plan's lanes side by side, with what a call needs before (PreMulSum's scaling, a copy)
// and after (avg's division).
#pragma once

#include <memory>
#include <vector>

#include "src/exec/lane_run.hpp"
#include "src/exec/pre_post_ops.hpp"

namespace tutti {

/// One thread at a time; reusable: begin(), step() until Done, begin() again.
class CollectiveRun : public Task {
 public:
  explicit CollectiveRun(const Plan& plan);

  void begin(const CallBuffers& buffers, const PrePostOps& prePost);
  /// A call that is its schedule alone.
  void begin(const CallBuffers& buffers);
  Result<Progress> step() override;
  /// Whether a call that is its schedule alone is done, instead of begin() and step(): LaneRun::doneAtOnce().
  bool doneAtOnce(const CallBuffers& buffers) { return lanes_.size() == 1 && lanes_[0].doneAtOnce(buffers); }
  int waitingOn() const override;
  /// The same for one lane; -1 if it is done.
  int waitingOn(size_t lane) const { return states_[lane] == LaneState::Done ? -1 : lanes_[lane].waitingOn(); }
  void abandon() override;

 private:
  enum class LaneState : char { Running, Done };
  Worker* worker_;
  std::vector<LaneRun> lanes_;
  std::vector<LaneState> states_;
  size_t running_ = 0;
  CallBuffers buffers_;
  Status begun_;  // what became of begin(), for the first step to say
  bool divides_ = false;
  PrePostOps prePost_;  // of a call that has such
};

}  // namespace tutti
