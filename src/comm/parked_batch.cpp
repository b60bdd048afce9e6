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
  (*use_)->watchdog().leave();
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
  batch->batch().tellFinished(false);
  why = batch->batch().settle(std::move(why));
  batch->leave();
  return why;
}

/// A batch as a task to drive; none while its streams have yet to come.  Errors: why there is nothing to drive.
Result<std::optional<DrivenTask>> asTask(ParkedBatch* batch, bool onStream) {
  if (!batch->resume()) return batch->failure();
  Comm& comm = batch->batch().comm();
  const Result<bool> started = batch->batch().start();
  const Status status = started.ok() ? comm.failure() : started.status();
  if (!status.ok()) return giveUp(batch, status);
  if (!*started) return std::optional<DrivenTask>();
  DrivenTask task = comm.watchdog().driven(&batch->batch(), onStream);
  task.atEnd = [batch, watchdog = &comm.watchdog()] {
    watchdog->noWait();
    if (batch->batch().comm().attached().retry == nullptr) batch->leave();  // else settled before
  };
  return std::optional(std::move(task));
}

}  // namespace

Result<DrivenTask*> ProxyJob::begin() {
  if (!batch_->hasTurn()) return static_cast<DrivenTask*>(nullptr);
  TUTTI_ASSIGN(std::optional<DrivenTask> task, asTask(batch_.get(), false));
  if (!task) return static_cast<DrivenTask*>(nullptr);
  task_ = std::move(*task);
  return &task_;
}

Status ProxyJob::end(Status result) {
  if (!result.ok()) remember(batch_->handle(), result);
  return result;
}

Result<DrivenTask*> ReplayJob::begin() {
  TUTTI_ASSIGN(use_, use(handle_.get()));
  Comm& comm = **use_;
  batch_ = comm.executor().newBatch();
  for (const Call& call : calls_) batch_->add(call, nullptr);
  batch_->replay();
  const Result<bool> started = batch_->start();
  if (!started.ok()) comm.watchdog().fail(started.status());
  TUTTI_TRY(started.status());
  TUTTI_TRY(comm.failure());
  task_ = comm.watchdog().driven(batch_.get());
  return &task_;
}

Status ReplayJob::end(Status result) {
  if (!batch_) {  // the communicator has gone
    dropped_();
    return {};
  }
  if (!result.ok()) remember(handle_.get(), result);
  (*use_)->watchdog().leave();
  batch_->finish();
  return {};
}

Status runBatches(std::span<const std::unique_ptr<ParkedBatch>> batches, bool onStream) {
  for (const auto& batch : batches) batch->awaitTurn();
  std::vector<DrivenTask> tasks;
  std::vector<ParkedBatch*> driven;  // by task
  std::vector<Status> results;
  size_t unprepared = 0;
  for (const auto& batch : batches) {
    Result<std::optional<DrivenTask>> task = asTask(batch.get(), onStream);  // there, as no proxy carries it out
    if (!task.ok()) {
      results.push_back(task.status());
      continue;
    }
    ++unprepared;
    batch->batch().runAfter(&unprepared);
    tasks.push_back(*std::move(task).value());
    driven.push_back(batch.get());
  }
  drive(tasks);
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (driven[i]->isThere()) driven[i]->batch().tellFinished(tasks[i].result.ok());
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    results.push_back(driven[i]->isThere() ? driven[i]->batch().settle(tasks[i].result) : tasks[i].result);
    driven[i]->leave();
  }
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return {};
}

}  // namespace tutti
