#include "src/exec/collective_run.hpp"

namespace tutti {

CollectiveRun::CollectiveRun(const Plan& plan) : worker_(plan.worker), states_(plan.lanes.size(), LaneState::Done) {
  lanes_.reserve(plan.lanes.size());
  for (const BoundLane& lane : plan.lanes) lanes_.emplace_back(plan, lane);
}

void CollectiveRun::begin(const CallBuffers& buffers) {
  buffers_ = buffers;
  divides_ = false;
  begun_ = Status();
  for (LaneRun& lane : lanes_) lane.begin(buffers_);
  std::fill(states_.begin(), states_.end(), LaneState::Running);
  running_ = lanes_.size();
}

void CollectiveRun::begin(const CallBuffers& buffers, const PrePostOps& prePost) {
  const Status prepared = prePost.prepares() ? prepareInput(worker_, buffers.reduction.dtype, prePost) : Status();
  begin(buffers);
  prePost_ = prePost;
  divides_ = prePost.divisor != 0;
  begun_ = prepared;
}

Result<Progress> CollectiveRun::step() {
  if (!begun_.ok()) return begun_;
  bool moved = false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (states_[i] == LaneState::Done) continue;
    TUTTI_ASSIGN(const Progress progress, lanes_[i].step());
    moved = moved || progress != Progress::Blocked;
    if (progress == Progress::Done) {
      states_[i] = LaneState::Done;
      --running_;
    }
  }
  if (running_ > 0) return moved ? Progress::Moved : Progress::Blocked;
  if (divides_) TUTTI_TRY(divideResult(worker_, buffers_.reduction.dtype, prePost_));
  return Progress::Done;
}

int CollectiveRun::waitingOn() const {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (states_[i] == LaneState::Running && lanes_[i].waitingOn() >= 0) return lanes_[i].waitingOn();
  }
  return -1;
}

void CollectiveRun::abandon() {
  for (LaneRun& lane : lanes_) lane.letGo();
  for (LaneRun& lane : lanes_) lane.withdraw();
}

}  // namespace tutti
