// Runs one collective: its plan's lanes side by side, with what the operator needs before (PreMulSum's scaling) and
// after (avg's division).
#pragma once

#include <memory>
#include <vector>

#include "src/exec/lane_run.hpp"

namespace tutti {

/// Elements of a buffer that get scaled before or divided after the lanes have run.
struct Touch {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  size_t count = 0;
};

/// What to do around the lanes.  A value; blocks point into the call's buffers.
struct Trimmings {
  const void* scalar = nullptr;  // PreMulSum: one element; input is scaled from `scaled.from` to `scaled.to` first
  bool scalarOnDevice = false;   // where the plan has a worker: whether the scalar is in its memory
  Touch scaled;
  int divisor = 0;  // avg: divide `divided.to` by it at the end; 0: do not
  Touch divided;
};

/// One thread at a time; reusable: begin(), step() until Done, begin() again.
class CollectiveRun : public Task {
 public:
  explicit CollectiveRun(const Plan& plan);

  void begin(const CallBuffers& buffers, const Trimmings& trimmings);
  Result<Progress> step() override;
  int waitingOn() const override;
  /// The same for one lane; -1 if it is done.
  int waitingOn(size_t lane) const { return states_[lane] == LaneState::Done ? -1 : lanes_[lane].waitingOn(); }
  void abandon() override;

 private:
  enum class LaneState : char { Running, Done };
  void scaleFirst(const Trimmings& trimmings);

  Worker* worker_;
  std::vector<LaneRun> lanes_;
  std::vector<LaneState> states_;
  size_t running_ = 0;
  CallBuffers buffers_;
  Status begun_;  // what became of begin(), for the first step to say
  int divisor_ = 0;
  Touch divided_;
};

}  // namespace tutti
