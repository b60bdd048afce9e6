#include "src/comm/parked_batch.hpp"

#include <algorithm>
#include <future>
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
  if ((*use_)->cuda() != nullptr) return;
  parked_ = true;
  handle_->abortState.parking().add(this, handle_->abortState);
}

bool ParkedBatch::resume() {
  if (!std::exchange(parked_, false)) return batch_ != nullptr;
  return handle_->abortState.parking().remove(this);
}

void ParkedBatch::leave() {
  if (batch_ == nullptr) return;
  (*use_)->log().leave();
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
  batch->batch().comm().fail(why);
  batch->leave();
  return why;
}

Status begin(ParkedBatch* batch) {
  if (!batch->resume()) return batch->failure();
  Status started = batch->batch().start();
  return started.ok() ? started : giveUp(batch, std::move(started));
}

Status makePlans(ParkedBatch* batch) {
  Status made = batch->batch().makePlans();
  return made.ok() ? made : giveUp(batch, std::move(made));
}

/// The others of its group may still be about theirs.
Status makePlansAndPark(ParkedBatch* batch) {
  Status made = makePlans(batch);
  if (made.ok()) batch->park();
  return made;
}

/// Plans of several communicators of one thread may need each other to come up, so they are made side by side.
std::vector<Status> prepareAll(std::span<const std::unique_ptr<ParkedBatch>> batches) {
  std::vector<Status> results;
  for (const auto& batch : batches) results.push_back(begin(batch.get()));
  if (batches.size() == 1) {
    if (results[0].ok()) results[0] = makePlans(batches[0].get());
    return results;
  }
  std::vector<std::future<Status>> work(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    if (results[i].ok()) work[i] = std::async(std::launch::async, makePlansAndPark, batches[i].get());
  }
  for (size_t i = 0; i < batches.size(); ++i) {
    if (work[i].valid()) results[i] = work[i].get();
  }
  return results;
}

/// The rest of a batch with plans, as a task to drive.  Errors: why there is nothing to drive.
Result<DrivenTask> asTask(ParkedBatch* batch) {
  if (!batch->resume()) return batch->failure();
  Comm& comm = batch->batch().comm();
  if (Status ended = comm.failure(); !ended.ok()) return giveUp(batch, std::move(ended));
  DrivenTask task = comm.driven(&batch->batch());
  task.atEnd = [batch] { batch->leave(); };
  return task;
}

}  // namespace

Status runBatches(std::span<const std::unique_ptr<ParkedBatch>> batches) {
  for (const auto& batch : batches) batch->awaitTurn();
  std::vector<Status> results = prepareAll(batches);
  std::vector<DrivenTask> tasks;
  for (size_t i = 0; i < batches.size(); ++i) {
    if (!results[i].ok()) continue;
    Result<DrivenTask> task = asTask(batches[i].get());
    results[i] = task.status();
    if (task.ok()) tasks.push_back(std::move(task).value());
  }
  drive(tasks);
  for (const DrivenTask& task : tasks) results.push_back(task.result);
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return {};
}

}  // namespace tutti
