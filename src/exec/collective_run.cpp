#include "src/exec/collective_run.hpp"

namespace tutti {

CollectiveRun::CollectiveRun(const Plan& plan) : worker_(plan.worker) {
  lanes_.reserve(plan.lanes.size());
  for (const BoundLane& lane : plan.lanes) lanes_.emplace_back(plan, lane);
}

void CollectiveRun::begin(const CallBuffers& buffers, const PrePostOps& prePost) {
  const Status prepared = prePost.prepares() ? prepareInput(worker_, buffers.reduction.dtype, prePost) : Status();
  begin(buffers);
  prePost_ = prePost;
  divides_ = prePost.divisor != 0;
  begun_ = prepared;
}

Result<Progress> CollectiveRun::stepLanes() {
  if (!begun_.ok()) return begun_;
  bool moved = false, allDone = true;
  for (LaneRun& lane : lanes_) {
    if (lane.isDone()) continue;
    TUTTI_ASSIGN(const Progress progress, lane.step());
    moved = moved || progress != Progress::Blocked;
    allDone = allDone && progress == Progress::Done;
  }
  if (!allDone) return moved ? Progress::Moved : Progress::Blocked;
  if (divides_) TUTTI_TRY(divideResult(worker_, buffers_.reduction.dtype, prePost_));
  return Progress::Done;
}

int CollectiveRun::waitingOn() const {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (waitingOn(lane) >= 0) return waitingOn(lane);
  }
  return -1;
}

void CollectiveRun::abandon() {
  for (LaneRun& lane : lanes_) lane.letGo();
  for (LaneRun& lane : lanes_) lane.withdraw();
}

}  // namespace tutti
