// The preparation of a batch: plans and endpoints for all its calls, in steps.
#include <algorithm>
#include <cstring>
#include <utility>

#include "src/comm/call_events.hpp"
#include "src/comm/launch.hpp"

namespace tutti {
namespace {

/// The first pair of ranks that do not agree on what the one sends the other.
Status checkCounts(const std::vector<size_t>& told, size_t n) {
  for (size_t from = 0; from < n; ++from) {
    for (size_t to = 0; to < n; ++to) {
      const size_t sent = told[from * 2 * n + to], expected = told[to * 2 * n + n + from];
      if (sent == expected) continue;
      return invalidUsage("AllToAllv: rank ", from, " sends ", sent, " elements to rank ", to, ", which expects ",
                          expected);
    }
  }
  return {};
}

/// Checks what all ranks told, and puts it into the call.
Status keepCounts(const std::vector<uint64_t>& told, Call* call) {
  const size_t n = call->counts->sendCounts.size();
  TUTTI_TRY(checkCounts(told, n));
  auto counts = std::make_shared<Counts>(*call->counts);
  for (size_t from = 0; from < n; ++from) {
    const auto row = told.begin() + static_cast<std::ptrdiff_t>(from * 2 * n);
    counts->all.insert(counts->all.end(), row, row + static_cast<std::ptrdiff_t>(n));
  }
  call->counts = std::move(counts);
  return {};
}

}  // namespace

Task* Batch::task() {
  if (Result<Progress> first = prepare(); !first.ok()) refused_ = first.status();
  const bool messageOnly = prepared_ && calls_.size() == 1 && collectives_.empty() && events_ == nullptr;
  return messageOnly ? static_cast<Task*>(&pointToPoint_) : this;
}

Result<Progress> Batch::prepare() {
  TUTTI_TRY(refused_);
  TUTTI_ASSIGN(const bool counted, learnCounts());
  if (!counted) return Progress::Blocked;
  TUTTI_ASSIGN(const bool made, makePlans());
  if (!made) return Progress::Blocked;
  finishPreparing();
  return Progress::Moved;
}

/// Call by call, as the exchanges are calls of their own, which all ranks make in the same order.
Result<bool> Batch::learnCounts() {
  while (preparing_.size() < calls_.size()) {
    Call& call = calls_[preparing_.size()];
    if (counts_ == nullptr) {
      TUTTI_ASSIGN(const bool advised, comm_.planner().hearAdvice(call));
      if (!advised) return false;
      TUTTI_TRY(reserveWorkspace(call));
      const bool collective = call.kind == CallKind::Collective;
      const bool resident = collective && goesByKernels(call);
      TUTTI_ASSIGN(const bool all, collective ? comm_.planner().needsAllCounts(call, resident) : Result<bool>(false));
      if (!all) {
        preparing_.push_back({.resident = resident});
        continue;
      }
      nextResident_ = resident;
    }
    TUTTI_ASSIGN(const bool known, exchangeCounts(&call));
    if (!known) return false;
    preparing_.push_back({.resident = nextResident_});
  }
  return true;
}

Result<bool> Batch::exchangeCounts(Call* call) {
  const auto n = static_cast<size_t>(comm_.nRanks());
  if (counts_ == nullptr) {
    counts_ = std::make_unique<CountsExchange>();
    const Counts& own = *call->counts;
    counts_->mine.assign(own.sendCounts.begin(), own.sendCounts.end());
    counts_->mine.insert(counts_->mine.end(), own.recvCounts.begin(), own.recvCounts.end());
    counts_->told.resize(2 * n * n);
    beginExchange();
  }
  std::vector<uint64_t>& told = counts_->told;
  if (counts_->gather != nullptr) {
    TUTTI_ASSIGN(const Blobs all, counts_->gather->poll());
    if (all.empty()) return false;
    const size_t bytes = counts_->mine.size() * sizeof(uint64_t);
    for (size_t r = 0; r < n; ++r) {
      if (all[r].size() != bytes) return remoteError("rank ", r, " tells other counts than AllToAllv's");
      std::memcpy(told.data() + r * 2 * n, all[r].data(), bytes);
    }
  } else {
    TUTTI_ASSIGN(const Progress progress, counts_->batch->step());
    if (progress != Progress::Done) return false;
  }
  const std::unique_ptr<CountsExchange> done = std::move(counts_);
  TUTTI_TRY(keepCounts(done->told, call));
  return true;
}

void Batch::beginExchange() {
  std::vector<uint64_t>& mine = counts_->mine;
  if (comm_.layout().anyCuda()) {
    const std::string text(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof mine[0]);
    counts_->gather = comm_.control().beginAllGather(text);
    return;
  }
  Call exchange;
  exchange.collective = Collective::AllGather;
  exchange.sendbuff = mine.data();
  exchange.recvbuff = counts_->told.data();
  exchange.count = mine.size();
  exchange.dtype = tuttiUint64;
  counts_->batch = std::make_unique<Batch>(comm_);
  counts_->batch->isOwn();
  counts_->batch->add(exchange, nullptr);
}

bool Batch::mayHaveOpened() { return std::exchange(numOpen_, comm_.links().numOpen()) != comm_.links().numOpen(); }

/// False while endpoints come up, those of all calls side by side.
Result<bool> Batch::makePlans() {
  TUTTI_TRY(comm_.links().poll());
  if (!mayHaveOpened()) return false;
  bool made = true;
  for (size_t i = 0; i < calls_.size(); ++i) {
    TUTTI_ASSIGN(const bool one, makePlan(i));
    made = made && one;
  }
  return made;
}

Result<bool> Batch::makePlan(size_t index) {
  const Call& call = calls_[index];
  Preparing& preparing = preparing_[index];
  if (call.kind == CallKind::Collective) {
    if (preparing.entry == nullptr) {
      TUTTI_ASSIGN(preparing.entry, comm_.planner().plan(call, preparing.resident));
    }
    return preparing.entry != nullptr;
  }
  if (call.count == 0) return true;
  TUTTI_ASSIGN(preparing.endpoint, comm_.executor().endpoint(call.root, kPointToPointLane));
  return preparing.endpoint != nullptr;
}

void Batch::finishPreparing() {
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].kind == CallKind::Collective) {
      collectives_.emplace_back(&calls_[i], std::move(preparing_[i].entry));
    } else {
      preparePointToPoint(calls_[i], preparing_[i].endpoint);
    }
  }
  pointToPointDone_ = pointToPoint_.empty();
  prepared_ = true;
  if (unprepared_ != nullptr) --*unprepared_;
}

void Batch::preparePointToPoint(const Call& call, Endpoint* endpoint) {
  const bool isSend = call.kind == CallKind::Send;
  const uint32_t sequence = comm_.callOrder().numbers().nextMessage(call.root, isSend);
  if (call.count == 0) return;
  PointToPointOp op;
  op.endpoint = endpoint;
  op.peer = call.root;
  op.isSend = isSend;
  op.source = static_cast<const std::byte*>(call.sendbuff);
  op.dst = static_cast<std::byte*>(call.recvbuff);
  op.bytes = call.count * dataTypeBytes(call.dtype);
  op.leastMappedBytes = comm_.planner().leastMappedBytes();
  const bool whole = op.bytes >= std::max(op.leastMappedBytes, op.endpoint->leastWholeBytes());
  op.sliceBytes = whole ? op.bytes : comm_.planner().sliceBytesTo(call.root);
  op.lendsAny = isSend && op.bytes >= kLeastPulledBytes && comm_.planner().lends(call.root, op.bytes);
  op.posts = comm_.executor().posting(call.root) != Posting::Nothing;
  comm_.use(isSend ? call.sendbuff : call.recvbuff, op.bytes);
  op.call = fingerprintOf(call, 0);
  const CallRecord record = recordOf(call, nullptr);
  learn(call, op, record);
  op.call = withSequence(op.call, sequence);
  const FlightRecorder::Message message = comm_.watchdog().beginMessage(op.call, record);
  op.record = message.index;
  op.recordNumber = message.number;
  pointToPoint_.add(op);
  if (events_) events_->beginPointToPoint(static_cast<size_t>(&call - calls_.data()), call, op.sliceBytes);
}

void Batch::learn(const Call& call, const PointToPointOp& op, const CallRecord& record) {
  if (comm_.profiler() != nullptr) return;
  KnownTransfer known{{op.isSend, call.dtype, call.root, call.count, nullptr, nullptr}, op, record};
  known.record.enqueuedNs = 0;
  comm_.planner().known().learn(known);
}

}  // namespace tutti
