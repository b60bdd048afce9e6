#include "src/exec/lane_run.hpp"

#include <algorithm>

#include "src/base/assert.hpp"
#include "src/base/copy.hpp"
#include "src/exec/reduce/wire.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

// A lane gives the others a turn after this many ops.
constexpr int kOpsPerStep = 16;
// Shorter messages are written before they are announced (kLeastStreamBytes of transport/shm).
constexpr size_t kLeastPartsBytes = 48 << 10;

/// Whether no message of the lane is long enough to be lent, posted or cut into slices, nor the lane to be left for
/// others in between.
bool isShort(const Plan& plan, const BoundLane& lane) {
  static_assert(kLeastDirectBytes <= kMostUnpostedBytes);
  const auto few = [](const BoundOp& op) { return op.token || (op.bytes > 0 && op.bytes < kLeastDirectBytes); };
  const bool whole = lane.loops == 1 && lane.ops.size() < static_cast<size_t>(kOpsPerStep);
  return whole && plan.worker == nullptr && std::ranges::all_of(lane.ops, few);
}

}  // namespace

LaneRun::LaneRun(const Plan& plan, const BoundLane& lane) : plan_(plan), lane_(lane), isShort_(isShort(plan, lane)) {
  size_t mostOperands = 2;
  size_t mostLoans = 0;
  for (const BoundOp& op : lane.ops) {
    mostOperands = std::max(mostOperands, op.sources.size() + op.from.size());
    for (const BoundPart& part : op.parts) mostOperands = std::max(mostOperands, part.sources.size() + op.from.size());
    mostLoans += op.direct || !plan.posts.empty() ? op.to.size() : 0;
  }
  operands_.reserve(mostOperands);
  messages_.reserve(mostOperands);
  loans_.reserve(mostLoans * std::min<size_t>(lane.loops, 8));
}

Status LaneRun::copy(std::byte* dst, const void* source, size_t bytes, size_t touchedBytes) {
  if (plan_.worker != nullptr) return plan_.worker->copy(dst, source, bytes);
  if (dst != source) copyPiece(dst, source, bytes, touchedBytes);
  return {};
}

// Inlined: as a call of its own it costs a call of 8 B more than its walk.
[[gnu::always_inline]] inline Result<bool> LaneRun::runShort(const BoundOp& op) {
  switch (op.shape) {
    case OpShape::Accumulate: return accumulate(op, op.bytes);
    case OpShape::Send:
      waitingOn_ = op.toRanks[0];
      return op.to[0]->send(readAddress(op.sources[0]), op.bytes, buffers_->call);
    case OpShape::Move:
      if (op.to.empty()) return moveIn(op, op.bytes);
      break;
    case OpShape::Copy:
      TUTTI_TRY(copy(writeAddress(op.dst), readAddress(op.sources[0]), op.bytes, op.touchedBytes));
      return true;
    default: break;
  }
  TUTTI_ASSIGN(const bool done, runOp(op));
  if (done) resetOp();
  return done;
}

// The walk of stepSlices() costs such a lane as much as its messages.
Result<Progress> LaneRun::stepShort() {
  const size_t before = op_;
  for (const size_t end = lane_.ops.size(); op_ < end; ++op_) {
    TUTTI_ASSIGN(const bool done, runShort(lane_.ops[op_]));
    if (!done) return op_ == before ? Progress::Blocked : Progress::Moved;
  }
  return Progress::Done;
}

Result<Progress> LaneRun::stepSlices() {
  bool moved = false;
  for (int budget = kOpsPerStep; budget > 0; --budget) {
    if (slice_ >= lane_.loops || lane_.ops.empty()) {
      if (loans_.empty()) return Progress::Done;
      const size_t before = loans_.size();
      TUTTI_ASSIGN(const bool returned, allLoansReturned());
      return returned ? Progress::Done : moved || loans_.size() != before ? Progress::Moved : Progress::Blocked;
    }
    TUTTI_ASSIGN(const bool done, runOp(lane_.ops[op_]));
    if (!done) return moved ? Progress::Moved : Progress::Blocked;
    nextOp();
    moved = true;
  }
  return Progress::Moved;
}

void LaneRun::nextOp() {
  resetOp();
  waitingOn_ = -1;
  if (++op_ == lane_.ops.size()) {
    op_ = 0;
    sliceBegin_ = lane_.beginOf(++slice_, plan_.sliceBytes);
    sliceBytes_ = plan_.sliceBytes;
  }
}

size_t LaneRun::sliceOf(const BoundOp& op) const {
  return sliceBegin_ >= op.bytes ? 0 : std::min(sliceBytes_, op.bytes - sliceBegin_);
}

const std::byte* LaneRun::readAddress(const Operand& operand) const {
  if (operand.buffer == Buffer::Scratch) return plan_.scratch + operand.offset;
  const std::byte* base = operand.buffer == Buffer::Input ? buffers_->input : buffers_->output;
  return base + operand.offset + sliceBegin_;
}

std::byte* LaneRun::writeAddress(const Operand& operand) const {
  if (operand.buffer == Buffer::Scratch) return plan_.scratch + operand.offset;
  TUTTI_ASSERT(operand.buffer == Buffer::Output);
  return buffers_->output + operand.offset + sliceBegin_;
}

Result<bool> LaneRun::runOp(const BoundOp& op) {
  const size_t bytes = sliceOf(op);
  if (bytes == 0 && !op.token) return true;
  if (!computed_) {
    if (op.shape == OpShape::Accumulate) return accumulate(op, bytes);
    if ((op.hasDst || !op.parts.empty()) && !loans_.empty()) {
      TUTTI_ASSIGN(const bool free, loansReturned(op));
      if (!free) return false;
    }
    if (op.shape == OpShape::Send) {
      value_ = readAddress(op.sources.front());
      return sendOne(op, 0, bytes);
    }
    if (op.shape == OpShape::Copy) {
      TUTTI_TRY(copy(writeAddress(op.dst), readAddress(op.sources[0]), bytes, op.touchedBytes));
      return true;
    }
    TUTTI_ASSIGN(const bool ready, op.shape == OpShape::Parts  ? exchangeParts(op, bytes)
                                   : op.shape == OpShape::Move ? moveIn(op, bytes)
                                                               : gather(op, bytes));
    if (!ready) return false;
    if (op.shape == OpShape::Other) {
      TUTTI_ASSIGN(const bool combined, combine(op, bytes));
      if (!combined) return false;
    }
    if (op.to.empty()) return true;
    computed_ = true;
  }
  TUTTI_ASSIGN(const bool gone, sendAll(op, bytes));
  if (!gone) return false;
  // A value that is passed on from where it arrived keeps its slot until it has left.
  const bool passedOn = op.shape == OpShape::Other && !op.hasDst && op.from.size() == 1 && op.sources.empty();
  if (passedOn && !op.token) releaseAll(op);
  return true;
}

Result<bool> LaneRun::moveIn(const BoundOp& op, size_t bytes) {
  waitingOn_ = op.fromRanks[0];
  std::byte* dst = op.token ? nullptr : writeAddress(op.dst);
  value_ = dst;
  return op.from[0]->receive(dst, {bytes, buffers_->call, op.touchedBytes});
}

// A plain recvReduce: the commonest op, and all there is to wait for in the shortest calls.
Result<bool> LaneRun::accumulate(const BoundOp& op, size_t bytes) {
  waitingOn_ = op.fromRanks[0];
  if (bytes >= kLeastPartsBytes && !op.rounds) return accumulateParts(op, bytes);  // rounding takes whole blocks
  TUTTI_ASSIGN(const std::byte* message, op.from[0]->peek({bytes, buffers_->call}));
  if (message == nullptr) return false;
  if (!loans_.empty()) {  // only now, so that bytes come while others go
    TUTTI_ASSIGN(const bool free, loansReturned(op.dst));
    if (!free) return false;
  }
  TUTTI_TRY(addTo(op, message, 0, bytes));
  round(op, writeAddress(op.dst), bytes);
  op.from[0]->release();
  return true;
}

// What has come is added while the sender writes the rest.
Result<bool> LaneRun::accumulateParts(const BoundOp& op, size_t bytes) {
  TUTTI_ASSIGN(const std::span<const std::byte> here, op.from[0]->peekPart({bytes, buffers_->call}));
  if (here.size() <= added_) return false;  // nothing more; less: a peer gone wild
  const size_t whole = here.size() - (here.size() - added_) % plan_.elementBytes;
  if (whole == added_) return false;
  if (!loans_.empty()) {
    TUTTI_ASSIGN(const bool free, loansReturned(op.dst));
    if (!free) return false;
  }
  TUTTI_TRY(addTo(op, here.data(), added_, whole - added_));
  added_ = whole;
  if (added_ < bytes) return false;
  op.from[0]->release();
  return true;
}

// Adds `bytes` of the message, from `begin` on, to the op's buffer.
Status LaneRun::addTo(const BoundOp& op, const std::byte* message, size_t begin, size_t bytes) {
  const std::byte* const own = readAddress(op.sources[0]) + begin;
  std::byte* const sum = writeAddress(op.dst) + begin;
  const size_t count = bytes / plan_.elementBytes;
  if (plan_.worker == nullptr) {
    reducePair(buffers_->reduction, sum, own, message + begin, count);
    return {};
  }
  const void* const both[] = {own, message + begin};
  return plan_.worker->reduce(buffers_->reduction, sum, both, count);
}

Result<bool> LaneRun::gather(const BoundOp& op, size_t bytes) {
  while (arrived_ < op.from.size()) {
    waitingOn_ = op.fromRanks[arrived_];
    if (arrived_ == 0) {
      operands_.clear();
      for (const Operand& source : op.sources) operands_.push_back(readAddress(source));
    }
    TUTTI_ASSIGN(const std::byte* message, op.from[arrived_]->peek({bytes, buffers_->call}));
    if (message == nullptr) return false;
    operands_.push_back(message);
    ++arrived_;
  }
  if (op.from.empty()) {
    operands_.clear();
    for (const Operand& source : op.sources) operands_.push_back(readAddress(source));
  }
  return true;
}

Result<bool> LaneRun::combine(const BoundOp& op, size_t bytes) {
  if (op.hasDst) {
    std::byte* dst = writeAddress(op.dst);
    TUTTI_TRY(compute(dst, bytes, op.touchedBytes));
    round(op, dst, bytes);
    releaseAll(op);
    value_ = dst;
    return true;
  }
  if (operands_.size() <= 1) {  // a plain send, or a message that is passed on
    value_ = operands_.empty() ? nullptr : static_cast<const std::byte*>(operands_[0]);
    return true;
  }
  TUTTI_ASSIGN(std::byte* const to, roomForValue(op, bytes));
  if (to == nullptr) return false;
  TUTTI_TRY(compute(to, bytes, op.touchedBytes));
  releaseAll(op);
  value_ = to;
  return true;
}

// The memory in which a value without a place of its own is built to be sent; null while there is no room.
Result<std::byte*> LaneRun::roomForValue(const BoundOp& op, size_t bytes) {
  TUTTI_ASSIGN(const bool chosen, chooseDelivery(op, bytes));
  if (!chosen || shared_ != nullptr) return shared_;
  waitingOn_ = op.toRanks[0];
  TUTTI_ASSIGN(const std::span<std::byte> room, op.to[0]->reserve());
  if (!room.empty()) staging_ = room.data();
  return staging_;
}

// All parts of the messages at once, as soon as they are there and there is room for what goes out.
Result<bool> LaneRun::exchangeParts(const BoundOp& op, size_t bytes) {
  for (; arrived_ < op.from.size(); ++arrived_) {
    if (arrived_ == 0) messages_.clear();
    waitingOn_ = op.fromRanks[arrived_];
    TUTTI_ASSIGN(const std::byte* message, op.from[arrived_]->peek({bytes, buffers_->call}));
    if (message == nullptr) return false;
    messages_.push_back(message);
  }
  if (op.from.empty()) messages_.clear();
  std::byte* to = nullptr;
  if (!op.to.empty()) {
    TUTTI_ASSIGN(to, roomForValue(op, bytes));
    if (to == nullptr) return false;
  }
  TUTTI_TRY(computeParts(op, to));
  releaseAll(op);
  value_ = to;
  return true;
}

/// message: to be built; null: nothing is sent.
Status LaneRun::computeParts(const BoundOp& op, std::byte* message) {
  size_t offset = 0;
  for (const BoundPart& part : op.parts) {
    operands_.clear();
    for (const Operand& source : part.sources) operands_.push_back(readAddress(source));
    for (const std::byte* received : messages_) operands_.push_back(received + offset);
    std::byte* const place = message == nullptr ? nullptr : message + offset;
    std::byte* const value = part.hasDst ? writeAddress(part.dst) : place;
    TUTTI_TRY(compute(value, part.bytes, part.touchedBytes));
    if (part.hasDst && place != nullptr) {
      operands_.assign(1, value);
      TUTTI_TRY(compute(place, part.bytes, 0));
    }
    offset += part.bytes;
  }
  return {};
}

Status LaneRun::compute(std::byte* dst, size_t bytes, size_t touchedBytes) {
  const size_t count = bytes / plan_.elementBytes;
  if (operands_.size() == 1) return copy(dst, operands_[0], bytes, touchedBytes);
  if (plan_.worker != nullptr) return plan_.worker->reduce(buffers_->reduction, dst, operands_, count);
  if (operands_.size() == 2 && !storesPastCache(touchedBytes)) {
    reducePair(buffers_->reduction, dst, operands_[0], operands_[1], count);
  } else {
    // dst may be the first operand only from the second round on.
    size_t done = std::min(operands_.size(), kMaxSources);
    const size_t past = done == operands_.size() ? touchedBytes : 0;
    reduceMany(buffers_->reduction, dst, std::span(operands_).first(done), count, past);
    for (; done < operands_.size(); ++done) reducePair(buffers_->reduction, dst, dst, operands_[done], count);
  }
  return {};
}

// Ops of several parts do not round: no chunks are joined where messages are rounded.
void LaneRun::round(const BoundOp& op, std::byte* value, size_t bytes) const {
  if (op.rounds) roundToWire(plan_.wire.format, plan_.wire.dtype, value, bytes / plan_.elementBytes);
}

void LaneRun::releaseAll(const BoundOp& op) {
  for (Endpoint* endpoint : op.from) endpoint->release();
}

// True once it is known how the value goes out.  Several receivers of one host read it from the outbox, unless they
// read it where it lies, or it travels in the control lines.
Result<bool> LaneRun::chooseDelivery(const BoundOp& op, size_t bytes) {
  if (delivery_ != Delivery::Unknown) return true;
  const bool shares = op.outbox != nullptr && bytes >= kLeastSharedBytes && bytes <= op.outbox->mostBytes();
  if (shares && !(op.direct && lends(op, *op.to[0], bytes))) {
    TUTTI_ASSIGN(shared_, op.outbox->reserve(bytes));
    if (shared_ == nullptr) {
      const int slowest = op.outbox->holdsUp(op.to);
      if (slowest >= 0) {
        waitingOn_ = op.toRanks[static_cast<size_t>(slowest)];
        return false;
      }
    }
  }
  delivery_ = shared_ != nullptr ? Delivery::Shared : Delivery::ToEach;
  return true;
}

Result<bool> LaneRun::sendShared(const BoundOp& op, size_t bytes) {
  if (value_ != shared_) storeBytes(shared_, value_, bytes);
  value_ = shared_;
  for (; sent_ < op.to.size(); ++sent_) {
    waitingOn_ = op.toRanks[sent_];
    TUTTI_ASSIGN(const bool gone, op.outbox->post(*op.to[sent_], bytes, buffers_->call));
    if (!gone) return false;
  }
  return true;
}

Result<bool> LaneRun::sendAll(const BoundOp& op, size_t bytes) {
  TUTTI_ASSIGN(const bool chosen, chooseDelivery(op, bytes));
  if (!chosen) return false;
  if (delivery_ == Delivery::Shared) return sendShared(op, bytes);
  // A staged value lies in the first receiver's slot and goes there last, because it is that receiver's afterwards.
  const size_t first = staging_ != nullptr ? 1 : 0;
  while (sent_ + first < op.to.size()) {
    TUTTI_ASSIGN(const bool gone, sendOne(op, sent_ + first, bytes));
    if (!gone) return false;
    ++sent_;
  }
  if (staging_ != nullptr) {
    waitingOn_ = op.toRanks[0];
    return op.to[0]->commit(bytes, buffers_->call);
  }
  return true;
}

Result<bool> LaneRun::sendOne(const BoundOp& op, size_t which, size_t bytes) {
  Endpoint* endpoint = op.to[which];
  waitingOn_ = op.toRanks[which];
  if ((!plan_.posts.empty() && posts(op, which, bytes)) || lends(op, *endpoint, bytes)) {
    TUTTI_ASSIGN(const Request request, endpoint->postSend(value_, bytes, buffers_->call));
    if (request == 0) return false;
    const Operand& lent = op.hasDst ? op.dst : op.sources.front();
    if (loans_.size() == loans_.capacity()) TUTTI_TRY(forgetReturned());
    loans_.push_back({endpoint, request, op.toRanks[which], lent.memory, slice_});
    lent_ = true;
    return true;
  }
  return endpoint->send(value_, bytes, buffers_->call);
}

bool LaneRun::lends(const BoundOp& op, const Endpoint& endpoint, size_t bytes) const {
  if (!op.direct || bytes < kLeastDirectBytes) return false;
  if (plan_.lendsAll) return endpoint.canOffer(value_, bytes);
  return bytes >= plan_.leastMappedBytes && endpoint.offersMapped(value_, bytes);
}

// A value in memory that later ops know by its chunk; not one that lies in a slot.
bool LaneRun::posts(const BoundOp& op, size_t which, size_t bytes) const {
  if (op.token || bytes <= kMostUnpostedBytes) return false;
  const Posting posting = plan_.posts[static_cast<size_t>(op.toRanks[which])];
  if (posting == Posting::Nothing || (posting == Posting::Direct && !op.direct)) return false;
  const bool passedOn = !op.hasDst && (!op.parts.empty() || !op.from.empty() || op.sources.size() != 1);
  if (passedOn || (op.hasDst ? op.dst : op.sources.front()).chunks != 1) return false;
  return op.to[which]->takes(value_, bytes);
}

void LaneRun::letGo() {
  if (slice_ < lane_.loops && op_ < lane_.ops.size()) releaseAll(lane_.ops[op_]);
}

}  // namespace tutti
