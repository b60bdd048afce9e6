#include "src/comm/cuda/stream_batch.hpp"

#include <algorithm>

namespace tutti {

void StreamBatch::add(const Call& call, tuttiStream_t stream) {
  Batch::add(call, stream);
  const auto onDevice = reinterpret_cast<cuda::Stream>(stream);
  if (std::ranges::find(streams_, onDevice) == streams_.end()) streams_.push_back(onDevice);
}

Result<bool> StreamBatch::submit(const Replay& replay) {
  if (executor_.proxy() == nullptr) return false;
  if (executor_.captureOf(streams_.front()) != 0) {
    const auto dropped = [proxy = executor_.proxy()] { proxy->endJob({}); };
    TUTTI_TRY(executor_.capture(streams_, [replay, dropped, calls = calls()] { return replay(calls, dropped); }));
    return true;
  }
  Result<CudaProxy::Submitted> job = executor_.submit(streams_);
  if (job.ok()) {
    job_ = std::move(job).value();
  } else {
    submitted_ = job.status();
  }
  return false;
}

void StreamBatch::finish() {
  Batch::finish();
  if (!job_) return;
  executor_.proxy()->endJob(*job_);
  job_.reset();
}

void StreamBatch::clear() {
  Batch::clear();
  streams_.clear();
}

Result<bool> StreamBatch::start() {
  const cuda::CudaScope scope(executor_.device());
  TUTTI_TRY(submitted_);
  if (job_) return streamsCame();
  kernels_ = executor_.kernelsFor(streams_.front());
  TUTTI_TRY(executor_.begin(streams_));
  return true;
}

// Before the deadline of the call begins to count: streams may have any amount of work to do first.
Result<bool> StreamBatch::streamsCame() {
  CudaProxy& proxy = *executor_.proxy();
  if (!proxy.reached(*job_)) {
    TUTTI_TRY(comm_.failure());
    return false;
  }
  TUTTI_TRY(proxy.beginJob(*job_));  // not before: other communicators' jobs may be in the same queue
  return true;
}

Task* StreamBatch::task() {
  const cuda::CudaScope scope(executor_.device());
  (void)Batch::task();
  return this;
}

/// What a sub-step has gathered is enqueued after it: the next one may enqueue in another way.
Result<Progress> StreamBatch::step() {
  const cuda::CudaScope scope(executor_.device());
  if (!prepared()) {
    TUTTI_ASSIGN(const Progress progress, prepare());
    if (!prepared()) return progress;
  }
  if (othersPrepare()) return Progress::Blocked;
  TUTTI_ASSIGN(const bool messages, stepMessages());
  TUTTI_TRY(executor_.flush());
  TUTTI_ASSIGN(const bool collectives, stepCollectives());
  TUTTI_TRY(executor_.flush());
  const Progress made = progress(messages || collectives);
  if (made == Progress::Done && !job_) TUTTI_TRY(executor_.end(streams_));
  return made;
}

// Not blocks that wait for each other, once a launch of such has been held up.
bool StreamBatch::goesByKernels(const Call& call) {
  return kernels_ != nullptr && (kernels_->settleWalk() || comm_.planner().goesInOnePass(call));
}

void StreamBatch::beginNext() {
  if (collectives_[next_].second->pass) return beginPasses();
  Batch::beginNext();
}

/// All that follow each other and need no plan.
void StreamBatch::beginPasses() {
  std::vector<OnePassRun::Call> calls;
  std::vector<CallRecord> records;
  for (; next_ < collectives_.size() && collectives_[next_].second->pass; ++next_) {
    const auto& [call, entry] = collectives_[next_];
    OnePassRun::Call& pass = calls.emplace_back();
    pass.collective = call->collective;
    pass.pass = *entry->pass;
    pass.buffers = buffersOf(*call, &pass.prePost);
    pass.sequence = comm_.callOrder().numbers().nextCollective();
    pass.buffers.call = fingerprintOf(*call, pass.sequence);
    tellBegun(*call, pass.sequence, *entry);
    records.push_back(recordOf(*call, entry.get()));
  }
  OnePassRun* run = kernels_->onePass();
  const uint64_t first = calls.front().sequence;
  run->begin(std::move(calls), [this, first, records = std::move(records)](const OnePassRun::Call& call) {
    comm_.watchdog().enter(call.sequence, call.buffers.call, records[call.sequence - first]);
  });
  current_ = run;
}

void StreamBatch::abandon() {
  const cuda::CudaScope scope(executor_.device());
  Batch::abandon();
  if (!prepared()) return;  // nothing has been enqueued
  if (job_) {
    leaving_ = Deadline::inMs(kLetGoMs);
    return;
  }
  // What was enqueued so far uses the caller's memory, and may wait for what others will never enqueue.
  executor_.letGoOf(streams_);
}

bool StreamBatch::abandoned() { return !prepared() || !job_ || executor_.letGoOfJob(leaving_); }

bool StreamBatch::awaitsDevice() const { return job_ && executor_.proxy()->busy(); }

}  // namespace tutti
