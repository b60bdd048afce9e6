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
      return invalidUsage(ErrorCode::CallsDiffer, "AllToAllv: rank ", from, " sends ", sent, " elements to rank ", to,
                          ", which expects ", expected);
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
  TUTTI_ASSIGN(const bool ready, prepareCalls());
  if (!ready) return Progress::Blocked;
  TUTTI_ASSIGN(const bool made, makePlans());
  if (!made) return Progress::Blocked;
  finishPreparing();
  return Progress::Moved;
}

/// Finds out what plans need.  It goes call by call, as its exchanges are calls of their own, which all ranks make in
/// the same order.
Result<bool> Batch::prepareCalls() {
  while (preparing_.size() < calls_.size()) {
    Call& call = calls_[preparing_.size()];
    if (!coming_) {
      TUTTI_ASSIGN(const bool chosen, takeTurn(call));
      if (!chosen) return false;
    }
    TUTTI_ASSIGN(const bool all, call.kind == CallKind::Collective
                                     ? comm_.planner().needsAllCounts(call, coming_->resident)
                                     : Result<bool>(false));
    if (all) {
      TUTTI_ASSIGN(const bool known, exchangeCounts(&call));
      if (!known) return false;
    }
    preparing_.push_back(std::move(*coming_));
    coming_.reset();
  }
  return true;
}

/// What the call takes is in coming_ then.
Result<bool> Batch::takeTurn(const Call& call) {
  TUTTI_ASSIGN(const bool advised, comm_.planner().hearAdvice(call));
  if (!advised) return false;
  Preparing coming;
  Learning* const learning = madeBy_ == MadeBy::Library ? nullptr : comm_.planner().learning();
  if (learning != nullptr) coming.kind = learning->kindOf(call);
  if (coming.kind != nullptr) {
    TUTTI_ASSIGN(const bool compared, compareWays(call, coming.kind));
    if (!compared) return false;
    coming.turn = coming.kind->trials.take();
  }
  TUTTI_TRY(reserveWorkspace(call));
  coming.resident = call.kind == CallKind::Collective && goesByKernels(call);
  coming_ = std::move(coming);
  return true;
}

/// Until the kind's trials know what they want to know.
Result<bool> Batch::compareWays(const Call& call, Learning::Kind* kind) {
  Comparison* const shared = comm_.planner().learning()->comparison();
  while (kind->trials.wants() != Trials::Wants::Nothing) {
    TUTTI_ASSIGN(const bool done, shared != nullptr ? compareLater(call, kind, shared) : compareNow(call, kind));
    if (!done) return false;
  }
  return planWays(call, kind);
}

Result<bool> Batch::compareNow(const Call& call, Learning::Kind* kind) {
  TUTTI_TRY(comm_.planner().findWays(call, kind));
  TUTTI_ASSIGN(const auto all, exchanged([kind] { return kind->figures(); }));
  if (all) comm_.planner().compare(call, kind, *all);
  return all.has_value();
}

/// Hears what was told before, maybe of another kind; or else tells, and goes on as before.
Result<bool> Batch::compareLater(const Call& call, Learning::Kind* kind, Comparison* comparison) {
  TUTTI_ASSIGN(const bool open, comparison->open());
  if (!open) return false;
  if (comparison->subject() != nullptr) {
    const Call told = *comparison->subject();
    TUTTI_ASSIGN(const auto all, comparison->hear());
    if (!all) return false;
    comm_.planner().compare(told, comm_.planner().learning()->kindOf(told), *all);
    return true;
  }
  TUTTI_TRY(comm_.planner().findWays(call, kind));
  TUTTI_TRY(comparison->tell(call, kind->figures()));
  kind->trials.putOff();
  return true;
}

/// All before the first one is tried: a rank that makes a plan would disturb others of its core, whose calls are timed.
Result<bool> Batch::planWays(const Call& call, Learning::Kind* kind) {
  if (kind->nPlans < kind->ways.size()) TUTTI_TRY(comm_.links().poll());
  for (; kind->nPlans < kind->ways.size(); ++kind->nPlans) {
    TUTTI_ASSIGN(const auto entry, comm_.planner().plan(call, false, kind->nPlans));
    if (entry == nullptr) return false;
  }
  return true;
}

Result<bool> Batch::exchangeCounts(Call* call) {
  const auto mine = [call] {
    const Counts& own = *call->counts;
    std::vector<uint64_t> counts(own.sendCounts.begin(), own.sendCounts.end());
    counts.insert(counts.end(), own.recvCounts.begin(), own.recvCounts.end());
    return counts;
  };
  TUTTI_ASSIGN(const auto told, exchanged(mine));
  if (!told) return false;
  TUTTI_TRY(keepCounts(*told, call));
  return true;
}

Result<std::optional<std::vector<uint64_t>>> Batch::exchanged(const std::function<std::vector<uint64_t>()>& mine) {
  using Numbers = std::optional<std::vector<uint64_t>>;
  if (exchange_ == nullptr) beginExchange(mine());
  std::vector<uint64_t>& told = exchange_->told;
  if (exchange_->gather != nullptr) {
    TUTTI_ASSIGN(const Blobs all, exchange_->gather->poll());
    if (all.empty()) return Numbers();
    const size_t bytes = exchange_->mine.size() * sizeof(uint64_t);
    for (size_t r = 0; r < all.size(); ++r) {
      if (all[r].size() != bytes)
        return remoteError(ErrorCode::Malformed, "rank ", r, " tells ", all[r].size(),
                           " bytes of counts or times, not ", bytes);
      std::memcpy(told.data() + r * exchange_->mine.size(), all[r].data(), bytes);
    }
  } else {
    TUTTI_ASSIGN(const Progress progress, exchange_->batch->step());
    if (progress != Progress::Done) return Numbers();
  }
  const std::unique_ptr<Exchange> done = std::move(exchange_);
  return Numbers(std::move(done->told));
}

void Batch::beginExchange(std::vector<uint64_t> mine) {
  exchange_ = std::make_unique<Exchange>();
  exchange_->mine = std::move(mine);
  const std::vector<uint64_t>& numbers = exchange_->mine;
  exchange_->told.resize(numbers.size() * static_cast<size_t>(comm_.nRanks()));
  if (comm_.layout().anyCuda()) {
    const std::string text(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers[0]);
    exchange_->gather = comm_.control().beginAllGather(text);
    return;
  }
  Call call;
  call.collective = Collective::AllGather;
  call.sendbuff = numbers.data();
  call.recvbuff = exchange_->told.data();
  call.count = numbers.size();
  call.dtype = tuttiUint64;
  call.byLibrary = true;
  exchange_->batch = std::make_unique<Batch>(comm_);
  exchange_->batch->isOwn();
  exchange_->batch->add(call, nullptr);
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
      TUTTI_ASSIGN(preparing.entry, comm_.planner().plan(call, preparing.resident, preparing.turn.way));
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
  if (isSend && !op.posts) op.chooser = comm_.planner().sendChooser(call.root, op.bytes, calls_.size() > 1);
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
  if (comm_.attached().profiler != nullptr) return;
  KnownTransfer known{{op.isSend, call.dtype, call.root, call.count, nullptr, nullptr, calls_.size() > 1}, op, record};
  known.record.enqueuedNs = 0;
  comm_.planner().known().learn(known);
}

}  // namespace tutti
