#include "src/comm/parked_batch.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

void Parking::add(ParkedBatch* batch, const AbortState& abortState) {
  const std::lock_guard lock(mutex_);
  if (abortState.ended()) {  // dropAll() may have been here
    batch->drop();
  } else {
    parked_.push_back(batch);
  }
}

bool Parking::remove(ParkedBatch* batch) {
  const std::lock_guard lock(mutex_);
  std::erase(parked_, batch);
  return batch->batch_ != nullptr;
}

void Parking::dropAll() {
  const std::lock_guard lock(mutex_);
  for (ParkedBatch* batch : parked_) batch->drop();
  parked_.clear();
}

void ParkedBatch::park() {
  if (!batch_->mayBeDropped()) return;
  parked_ = true;
  handle_->abortState.parking().add(this, handle_->abortState);
}

bool ParkedBatch::resume() {
  if (!std::exchange(parked_, false)) return batch_ != nullptr;
  return handle_->abortState.parking().remove(this);
}

void ParkedBatch::leave() {
  if (batch_ == nullptr) return;
  (*use_)->watchdog().log().leave();
  batch_->finish();
  callOrder_->finish(ticket_);
  batch_.reset();
  use_.reset();
}

void ParkedBatch::drop() {
  batch_.reset();
  callOrder_->skip(ticket_);
  use_.reset();
}

namespace {

/// A batch that cannot go on leaves its communicator at once: the others of its group may take long.
Status giveUp(ParkedBatch* batch, Status why) {
  batch->batch().comm().watchdog().fail(why);
  batch->leave();
  return why;
}

/// A batch as a task to drive.  Errors: why there is nothing to drive.
Result<DrivenTask> asTask(ParkedBatch* batch, size_t* unprepared) {
  if (!batch->resume()) return batch->failure();
  Comm& comm = batch->batch().comm();
  Status started = batch->batch().start();
  if (started.ok()) started = comm.failure();
  if (!started.ok()) return giveUp(batch, std::move(started));
  ++*unprepared;
  batch->batch().runAfter(unprepared);
  DrivenTask task = comm.watchdog().driven(&batch->batch());
  task.atEnd = [batch] { batch->leave(); };
  return task;
}

}  // namespace

Status runBatches(std::span<const std::unique_ptr<ParkedBatch>> batches) {
  for (const auto& batch : batches) batch->awaitTurn();
  std::vector<DrivenTask> tasks;
  std::vector<Status> results;
  size_t unprepared = 0;
  for (const auto& batch : batches) {
    Result<DrivenTask> task = asTask(batch.get(), &unprepared);
    if (task.ok()) tasks.push_back(std::move(task).value());
    if (!task.ok()) results.push_back(task.status());
  }
  drive(tasks);
  for (const DrivenTask& task : tasks) results.push_back(task.result);
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return {};
}

}  // namespace tutti
