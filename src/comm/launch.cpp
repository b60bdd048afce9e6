#include "src/comm/launch.hpp"

#include <algorithm>
#include <utility>

#include "src/comm/call_events.hpp"
#include "src/comm/fast_path.hpp"
#include "src/comm/handle.hpp"
#include "src/comm/result_checks.hpp"

namespace tutti {
namespace {

// Calls of so many bytes take a hundred times as long as two looks at the clock, which are a twentieth of 64 KiB in
// registered memory.
constexpr uint64_t kLeastExactBytes = 512 << 10;

uint32_t opCode(const Call& call) {
  if (call.op < tuttiNumOps) return static_cast<uint32_t>(call.op);
  return static_cast<uint32_t>(tuttiNumOps) + (call.custom->function != nullptr ? 1 : 0);
}

/// Counts of a v form that all ranks know, as one number; calls whose counts only the two ends know give 0.
uint64_t countsHash(const Call& call) {
  uint64_t hash = 0;
  if (!everyoneKnowsBlocks(call.collective)) return hash;
  for (const std::vector<size_t>* counts : {&call.counts->sendCounts, &call.counts->recvCounts}) {
    for (const size_t count : *counts) hash = hash * 1000003 + count;
  }
  return hash;
}

}  // namespace

Fingerprint fingerprintOf(const Call& call, uint64_t sequence) {
  CallParts parts;
  parts.sequence = static_cast<uint32_t>(sequence);
  parts.kind = call.kind == CallKind::Collective ? static_cast<uint32_t>(call.collective) : kKindPointToPoint;
  parts.dtype = static_cast<uint32_t>(call.dtype);
  if (call.counts) parts.kind += kKindCounts;
  if (callReduces(call)) parts.op = opCode(call);
  parts.root = callIsRooted(call) ? static_cast<uint32_t>(call.root) : call.byLibrary ? kByLibrary : 0;
  parts.count = call.counts ? countsHash(call) : call.count;
  return makeFingerprint(parts);
}

Batch::Batch(Comm& comm) : comm_(comm) {}
Batch::~Batch() = default;

void Batch::add(const Call& call, tuttiStream_t stream) {
  calls_.push_back(call);
  if (stream != nullptr) calls_.back().enqueuedNs = nowNs();
  if (comm_.attached().profiler == nullptr || madeBy_ == MadeBy::Library) return;
  if (events_ == nullptr) events_ = std::make_unique<CallEvents>(*comm_.attached().profiler, comm_.links());
  events_->made(call, {stream, madeBy_ == MadeBy::Group, comm_.executor().captureOf(stream) != 0});
}

void Batch::endEvents() { events_.reset(); }

void Batch::tellBegun(const Call& call, uint64_t sequence, const PlanEntry& entry) {
  if (events_) events_->beginCollective(static_cast<size_t>(&call - calls_.data()), call, sequence, entry);
}

CallRecord Batch::recordOf(const Call& call, const PlanEntry* entry) const {
  FlightRecorder& recorder = comm_.watchdog().recorder();
  RecordDetail detail;
  CallRecord record;
  if (entry != nullptr) {
    const Extents extents = extentsOf(call, comm_.rank(), comm_.nRanks());
    record.bytes = std::max(extents.sendBytes, extents.recvBytes);
    detail.algorithm = recorder.indexOf(entry->algorithm);
    detail.protocol = static_cast<uint32_t>(entry->protocol) + 1;
    detail.nChannels = static_cast<uint32_t>(entry->nChannels);
  } else {
    record.bytes = call.count * dataTypeBytes(call.dtype);
    detail.isSend = call.kind == CallKind::Send;
    detail.peer = static_cast<uint32_t>(call.root);
  }
  record.enqueuedNs = call.enqueuedNs;
  record.exact = recorder.traces() || record.bytes >= kLeastExactBytes || record.enqueuedNs != 0;
  detail.coarse = !record.exact;
  record.detail = encodeDetail(detail);
  return record;
}

void Batch::finish() {
  endMessages();
  endEvents();
  if (!prepared_ && unprepared_ != nullptr) --*unprepared_;
  unprepared_ = nullptr;
}

void Batch::clear() {
  endEvents();
  calls_.clear();
  pointToPoint_.clear();
  collectives_.clear();
  preparing_.clear();
  exchange_.reset();
  coming_.reset();
  next_ = 0;
  current_ = nullptr;
  comparing_ = false;
  prepared_ = false;
  numOpen_ = SIZE_MAX;
  refused_ = {};
}

void Batch::beginNext() {
  const auto& [call, entry] = collectives_[next_];
  const uint64_t sequence = comm_.callOrder().numbers().nextCollective();
  PrePostOps prePost;
  CallBuffers buffers = buffersOf(*call, &prePost);
  if (entry->copiedBytes > 0) readCopy(entry->copiedBytes, &buffers, &prePost);
  buffers.call = fingerprintOf(*call, sequence);
  // Who comes through a barrier has made the same calls as all others.
  if (call->collective == Collective::Barrier) buffers.call.count = comm_.watchdog().recorder().history();
  if (comm_.attached().retry != nullptr && madeBy_ != MadeBy::Library)
    comm_.attached().retry->keep(*call, collectives_.size() == 1);
  const Extents extents = extentsOf(*call, comm_.rank(), comm_.nRanks());
  comm_.use(call->sendbuff, extents.sendBytes);
  comm_.use(call->recvbuff, extents.recvBytes);
  comm_.watchdog().enter(sequence, buffers.call, recordOf(*call, entry.get()));
  tellBegun(*call, sequence, *entry);
  if (isTimed()) beganNs_ = nowNs();
  entry->begin(buffers, prePost);
  current_ = entry->task();
  ++next_;
}

CallBuffers Batch::buffersOf(const Call& call, PrePostOps* around) {
  CallBuffers buffers;
  buffers.input = static_cast<const std::byte*>(call.sendbuff);
  buffers.output = static_cast<std::byte*>(call.recvbuff);
  buffers.reduction = {call.dtype, call.op, nullptr, nullptr};
  PrePostOps& prePost = *around;
  if (callReduces(call) && call.op == tuttiAvg) {
    buffers.reduction.op = tuttiSum;
    if (hasOutput(call.collective, comm_.rank(), call.root)) {
      prePost.divisor = comm_.nRanks();
      prePost.divided = {nullptr, buffers.output, call.count};
    }
  }
  if (call.custom != nullptr && call.custom->function != nullptr) {
    buffers.reduction = {call.dtype, tuttiSum, call.custom->function, call.custom->context};
  } else if (call.custom != nullptr) {  // PreMulSum: the scaled input takes the input's place
    buffers.reduction.op = tuttiSum;
    const size_t bytes = extentsOf(call, comm_.rank(), comm_.nRanks()).sendBytes;
    prePost.scalar = call.custom->deviceScalar != nullptr ? call.custom->deviceScalar : call.custom->scalar.data();
    prePost.scalarOnDevice = call.custom->deviceScalar != nullptr;
    prePost.scaled = {buffers.input, *comm_.executor().workspace(bytes), bytes / dataTypeBytes(call.dtype)};
    buffers.input = prePost.scaled.to;
  }
  return buffers;
}

/// A copy takes the input's place; the memory was taken with the plan.
void Batch::readCopy(size_t bytes, CallBuffers* buffers, PrePostOps* around) {
  around->copied = {buffers->input, *comm_.executor().workspace(bytes), bytes};
  buffers->input = around->copied.to;
}

/// Then buffersOf() gets it without fail.
Status Batch::reserveWorkspace(const Call& call) {
  if (call.custom == nullptr || call.custom->function != nullptr) return {};
  return asStatus(comm_.executor().workspace(extentsOf(call, comm_.rank(), comm_.nRanks()).sendBytes));
}

void Batch::tellFinished(bool finished) {
  const auto isCollective = [](const Call& call) { return call.kind == CallKind::Collective; };
  told_ = comm_.attached().retry != nullptr && std::ranges::any_of(calls_, isCollective);
  if (told_) comm_.attached().retry->vote(finished);
}

Status Batch::settle(Status result) {
  if (!std::exchange(told_, false)) return result;
  const bool finished = result.ok();
  result = comm_.attached().retry->settle(std::move(result), comm_.deadline());
  if (finished) comm_.watchdog().fail(result);
  return result;
}

// A profiler hears of calls that go by batches alone, results are compared there, and ranks settle there whether all
// have finished.
void Batch::remember() {
  const bool byBatches = comm_.attached().followCalls();
  if (byBatches || collectives_.size() != 1 || calls_.size() != 1) return;
  const auto& [call, entry] = collectives_.front();
  if (entry->copiedBytes > 0 || call->counts || call->custom ||
      (call->count == 0 && call->collective != Collective::Barrier))
    return;
  KnownCall k;
  k.like = {call->collective, call->dtype, call->op, call->root, call->count};
  k.extents = extentsOf(*call, comm_.rank(), comm_.nRanks());
  if (k.extents.both()) k.placement = placed(k.extents, call->sendbuff, call->recvbuff);
  k.call = fingerprintOf(*call, 0);
  if (call->collective == Collective::Barrier) k.historyMask = UINT64_MAX;
  PrePostOps prePost;
  k.reduction = buffersOf(*call, &prePost).reduction;
  k.divisor = prePost.divisor;
  k.dividedCount = prePost.divided.count;
  k.record = recordOf(*call, entry.get());
  k.record.enqueuedNs = 0;
  k.run = entry->run.get();
  if (preparing_[0].kind != nullptr) k.trials = &preparing_[0].kind->trials;
  k.way = preparing_[0].turn.way;
  const WaitPolicy& policy = comm_.watchdog().policy();
  const bool sharesCore = yieldsFirst(policy) && !policy.inBatches;  // sockets hold what was sent: nothing to gain
  k.handsOn = sharesCore && entry->plan != nullptr && onlySends(*entry->plan);
  comm_.planner().known().learn(k);
}

Result<Progress> Batch::step() {
  if (!prepared_) {
    TUTTI_ASSIGN(const Progress progress, prepare());
    if (!prepared_) return progress;
  }
  TUTTI_ASSIGN(const bool messages, stepMessages());
  TUTTI_ASSIGN(const bool collectives, stepCollectives());
  return progress(messages || collectives);
}

Result<bool> Batch::stepMessages() {
  if (pointToPointDone_) return false;
  TUTTI_ASSIGN(const Progress progress, pointToPoint_.step());
  pointToPointDone_ = progress == Progress::Done;
  if (progress != Progress::Blocked) endMessages();
  if (events_) events_->endMessages(pointToPoint_);
  return progress != Progress::Blocked;
}

/// Those that are done; all, where the communicator has failed.
void Batch::endMessages() {
  const bool failed = comm_.watchdog().aborting();
  for (size_t i = 0; i < pointToPoint_.size(); ++i) {
    PointToPointOp& op = pointToPoint_.op(i);
    const bool done = pointToPoint_.isDone(i);
    if (op.recordNumber == 0 || !(done || failed)) continue;
    comm_.watchdog().recorder().endMessage({op.record, op.recordNumber}, !done);
    op.recordNumber = 0;
  }
}

Result<bool> Batch::stepCollectives() {
  if (comparing_) return compare();
  if (current_ == nullptr && next_ < collectives_.size()) beginNext();
  if (current_ == nullptr) return false;
  TUTTI_ASSIGN(const Progress progress, current_->step());
  if (progress == Progress::Done) {
    comm_.watchdog().recorder().leave();
    if (isTimed()) {
      const Call& call = *collectives_[next_ - 1].first;
      const bool mapped = isMapped(call.sendbuff, call.recvbuff);
      preparing_[0].kind->trials.record(preparing_[0].turn, {nowNs() - beganNs_, beganNs_, mapped});
    }
    if (events_) events_->endCollectives();
    current_ = nullptr;
    if (comm_.attached().resultChecks != nullptr) beginComparing();
  }
  return progress != Progress::Blocked;
}

void Batch::beginComparing() {
  ResultChecks& checks = *comm_.attached().resultChecks;
  const Call& call = *collectives_[next_ - 1].first;
  comparing_ = checks.due(call);
  if (comparing_) checks.begin(call, comm_.callOrder().numbers().collective());
}

Result<bool> Batch::compare() {
  TUTTI_ASSIGN(const bool same, comm_.attached().resultChecks->poll());
  comparing_ = !same;
  return same;
}

Progress Batch::progress(bool moved) const {
  if (pointToPointDone_ && current_ == nullptr && !comparing_ && next_ == collectives_.size()) return Progress::Done;
  return moved ? Progress::Moved : Progress::Blocked;
}

int Batch::waitingOn() const {
  if (exchange_ != nullptr) return exchange_->batch != nullptr ? exchange_->batch->waitingOn() : -1;
  if (!prepared_) {
    const Learning* const learning = comm_.planner().learning();
    const int unheard = learning != nullptr ? learning->waitingOn() : -1;
    return unheard >= 0 ? unheard : comm_.links().openingTo();
  }
  const int collective = current_ != nullptr ? current_->waitingOn() : -1;
  return collective >= 0 ? collective : pointToPoint_.waitingOn();
}

const WaitingMessage* Batch::waitingMessage() const {
  const bool collective = current_ != nullptr && current_->waitingOn() >= 0;
  return prepared_ && !collective ? pointToPoint_.waitingMessage() : nullptr;
}

void Batch::abandon() {
  if (exchange_ != nullptr && exchange_->running()) exchange_->batch->abandon();
  if (!prepared_) return;  // nothing has been enqueued
  if (current_ != nullptr) current_->abandon();
  pointToPoint_.abandon();
}

namespace {

/// With the turn; not by a proxy.
Status runBatch(Comm& comm, Batch* batch) {
  Status result = asStatus(batch->start());
  if (!result.ok()) comm.watchdog().fail(result);
  if (result.ok()) result = comm.failure();
  return result.ok() ? runTask(comm, batch->task()) : result;
}

}  // namespace

Status runCall(Comm& comm, const Call& call, tuttiStream_t stream) {
  const uint64_t ticket = comm.callOrder().take();
  comm.callOrder().await(ticket);
  const TurnOf giveBack(comm.callOrder(), ticket);
  Batch& batch = *comm.calls().batch;
  batch.clear();
  batch.add(call, stream);
  Status result = runBatch(comm, &batch);
  batch.tellFinished(result.ok());
  result = batch.settle(std::move(result));
  batch.endMessages();
  batch.endEvents();
  if (result.ok()) batch.remember();
  comm.watchdog().leave();
  return result;
}

}  // namespace tutti
