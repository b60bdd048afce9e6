// The receiving half of ShmEndpoint.
#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/copy.hpp"
#include "transport/shm/shm_endpoint.hpp"

namespace tutti::shm {
namespace {

// After so many looks in vain a receiver counts as waiting.
constexpr uint32_t kLooksOfWait = 8;

}  // namespace

// Whether the next message is there.  Any number but the next one is that of the line's last message.
bool ShmEndpoint::arrived() {
  const uint64_t word = line().sequence.load(std::memory_order_acquire);  // partner: post()
  if (static_cast<uint32_t>(word) == static_cast<uint32_t>(received_ + 1)) return true;
  waited_ = true;
  if (++looks_ == kLooksOfWait)
    in_.head().awaited.store(static_cast<uint32_t>(received_ + 1), std::memory_order_relaxed);
  return false;
}

// The peer is done with so many of our messages, modulo 2^32.  An old number is one that lies behind what we know.
void ShmEndpoint::noteCredit(uint32_t consumed) {
  const auto more = static_cast<int32_t>(consumed - static_cast<uint32_t>(seenConsumed_));
  if (more > 0) seenConsumed_ += static_cast<uint64_t>(more);
}

Status ShmEndpoint::look(const Expect& expect, Head* head) {
  const ControlLine& line = this->line();
  noteCredit(static_cast<uint32_t>(line.sequence.load(std::memory_order_relaxed) >> 32));
  const uint64_t kindAndBytes = line.kindAndBytes.load(std::memory_order_relaxed);
  const Fingerprint call{line.callHead.load(std::memory_order_relaxed), line.callCount.load(std::memory_order_relaxed)};
  head->kind = static_cast<Kind>(kindAndBytes >> kBytesBits);
  head->bytes = kindAndBytes & kBytesMask;
  if (call != expect.call || head->bytes != expect.bytes) [[unlikely]]
    return refuse(expect, call, head->bytes);
  if (head->kind != Kind::Inline || head->bytes > kInlineBytes) {
    std::memcpy(&head->place, line.payload, sizeof head->place);
    TUTTI_TRY(checkBounds(*head));
    timed_ = head->place.beganNs != 0;
    if (timed_) [[unlikely]]
      beginTiming(head->place.beganNs);
  }
  // A receiver that asks for a message asks for all of its pieces.
  const size_t begin = gathered_ / slotBytes_ * slotBytes_;
  const size_t parts = head->kind == Kind::Piece ? (head->bytes - begin + slotBytes_ - 1) / slotBytes_ : 1;
  asked_.store(received_ + parts, std::memory_order_relaxed);
  return {};
}

Status ShmEndpoint::checkBounds(const Head& head) const {
  const bool inPieces = gathered_ != 0;
  const auto lies = [&](size_t room) { return head.bytes <= room && head.place.where <= room - head.bytes; };
  const bool good =
      head.kind == Kind::Slot || head.kind == Kind::Stream ? head.bytes <= slotBytes_ && head.place.where < slots_
      : head.kind == Kind::Small                           ? lies(kRingBytes)
      : head.kind == Kind::Piece                           ? head.bytes > slotBytes_ && head.place.where < slots_
      : head.kind == Kind::Address                         ? ends_.sameProcess && !inPieces
      : head.kind == Kind::Pull                            ? ends_.canPull && !inPieces
      : head.kind == Kind::Mapped                          ? !inPieces
      : head.kind == Kind::Shared ? !inPieces && head.bytes <= slotBytes_ && lies(ends_.theirs->layout().outboxBytes())
                                  : false;
  if (good) return {};
  return remoteError(ErrorCode::Malformed, "shm: rank ", ends_.peer, " sent a control line that cannot be (kind ",
                     static_cast<int>(head.kind), ", ", head.bytes, " bytes)");
}

Status ShmEndpoint::refuse(const Expect& expect, const Fingerprint& call, size_t bytes) {
  seen_ = call;
  return invalidUsage(ErrorCode::CallsDiffer, "ranks ", ends_.rank, " and ", ends_.peer, " disagree: rank ", ends_.rank,
                      " is in ", describeCall(expect.call), " and expects ", expect.bytes, " bytes, but rank ",
                      ends_.peer, " sent ", bytes, " bytes of ", describeCall(call));
}

Status ShmEndpoint::openMapped(const Head& head, const std::byte** data) {
  const AllocationId id{head.place.idHigh, head.place.idLow};
  if (lastMapping_ == nullptr || id != lastMapped_) {
    TUTTI_ASSIGN(lastMapping_, ends_.allocations->map(ends_.peer, id));
    lastMapped_ = id;
  }
  const size_t size = lastMapping_->bytes();
  if (head.place.where > size || head.bytes > size - head.place.where) {
    return remoteError(ErrorCode::Malformed, "shm: rank ", ends_.peer, " offered ", head.bytes, " bytes at ",
                       head.place.where, " of an allocation of ", size, " bytes");
  }
  *data = lastMapping_->data() + head.place.where;
  return {};
}

// Where the bytes of a message can be read; for Address with our claim on it.  Not for Piece.
Result<const std::byte*> ShmEndpoint::open(const Head& head) {
  switch (head.kind) {
    case Kind::Inline: return static_cast<const std::byte*>(line().payload);
    case Kind::Small: return static_cast<const std::byte*>(in_.ring(head.place.where));
    case Kind::Slot:
    case Kind::Stream: return static_cast<const std::byte*>(in_.data(head.place.where));
    case Kind::Shared: return static_cast<const std::byte*>(ends_.theirs->outbox(ends_.lane) + head.place.where);
    case Kind::Address:
      if (!claim())
        return remoteError(ErrorCode::LeftEarly, "rank ", ends_.peer, " has given up and taken its memory back");
      return reinterpret_cast<const std::byte*>(head.place.where);
    case Kind::Mapped: {
      const std::byte* data = nullptr;
      TUTTI_TRY(openMapped(head, &data));
      return data;
    }
    case Kind::Pull: {
      std::byte* data = staging_.atLeast(head.bytes);
      if (data == nullptr) return systemError(ErrorCode::NoMemory, "no memory for ", head.bytes, " bytes");
      TUTTI_TRY(readProcess(ends_.peerPid, head.place.where, data, head.bytes));
      return static_cast<const std::byte*>(data);
    }
    case Kind::Piece: break;
  }
  return internalError(ErrorCode::PartMisused, "shm: no place to read kind ", static_cast<int>(head.kind));
}

// How many of the `bytes` of the current slot, a Stream's or Piece's, are there.
size_t ShmEndpoint::filledOfSlot(size_t bytes) const {
  return std::min<uint64_t>(bytes, in_.head().filled.load(std::memory_order_acquire) - streamed_);  // partner: stream()
}

// Copy what is there of a Stream or of Pieces.  True when the message is whole.
Result<bool> ShmEndpoint::gather(std::byte* dst, const Head& head, size_t touchedBytes) {
  Head piece = head;
  while (true) {
    const size_t begin = gathered_ / slotBytes_ * slotBytes_;  // of this slot, within the message
    const size_t bytes = std::min(slotBytes_, head.bytes - begin);
    const size_t here = begin + filledOfSlot(bytes);
    if (here <= gathered_) return false;
    copyFromSlot(dst + gathered_, in_.data(piece.place.where) + (gathered_ - begin), here - gathered_, touchedBytes);
    gathered_ = here;
    if (gathered_ < begin + bytes) continue;
    streamed_ += bytes;
    consume(head.kind);
    if (gathered_ == head.bytes) break;
    if (!arrived()) return false;
    if (line().kindAndBytes.load(std::memory_order_relaxed) != kindAndBytes(Kind::Piece, head.bytes)) {
      return remoteError(ErrorCode::Malformed, "shm: rank ", ends_.peer, " sent something else inside a message of ",
                         head.bytes, " bytes");
    }
    std::memcpy(&piece.place, line().payload, sizeof piece.place);
    TUTTI_TRY(checkBounds(piece));
  }
  gathered_ = 0;
  return true;
}

Result<const std::byte*> ShmEndpoint::peek(const Expect& expect) {
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  if (peeked_ != nullptr) return peeked_;
  if (!arrived()) return static_cast<const std::byte*>(nullptr);
  Head head;
  if (Status s = look(expect, &head); !s.ok()) [[unlikely]]
    return fail(std::move(s));
  if (head.kind == Kind::Stream && filledOfSlot(head.bytes) < head.bytes) return static_cast<const std::byte*>(nullptr);
  return handOut(head);
}

Result<std::span<const std::byte>> ShmEndpoint::peekPart(const Expect& expect) {
  if (!failure_.ok()) return failure_;
  if (peeked_ == nullptr) {
    if (!arrived()) return std::span<const std::byte>();
    Head head;
    if (Status s = look(expect, &head); !s.ok()) return fail(std::move(s));
    TUTTI_ASSIGN(const std::byte* data, handOut(head));
    if (data == nullptr) return std::span<const std::byte>();
  }
  return std::span(peeked_, peekedStream_ != 0 ? filledOfSlot(peekedStream_) : expect.bytes);
}

// A message to be read until release(), a Stream also before it is whole.  Null: some of its pieces have not come.
Result<const std::byte*> ShmEndpoint::handOut(const Head& head) {
  if (head.kind == Kind::Piece) {
    std::byte* whole = staging_.atLeast(head.bytes);
    if (whole == nullptr) return fail(systemError(ErrorCode::NoMemory, "no memory for ", head.bytes, " bytes"));
    Result<bool> complete = gather(whole, head, 0);
    if (!complete.ok()) return fail(complete.status());
    if (!*complete) return static_cast<const std::byte*>(nullptr);
    peekedIsOurs_ = true;
    peeked_ = whole;
    return peeked_;
  }
  if (head.kind == Kind::Stream) peekedStream_ = head.bytes;
  Result<const std::byte*> data = open(head);
  if (!data.ok()) return fail(data.status());
  peeked_ = *data;
  peekedKind_ = head.kind;
  if (head.kind == Kind::Pull) {
    consume(head.kind);  // the bytes are ours: the sender may have its memory back
    peekedIsOurs_ = true;
  }
  return peeked_;
}

void ShmEndpoint::release() {
  if (peeked_ == nullptr) return;
  peeked_ = nullptr;
  unclaim();
  streamed_ += std::exchange(peekedStream_, 0);
  if (!std::exchange(peekedIsOurs_, false)) consume(peekedKind_);
}

Result<bool> ShmEndpoint::receive(std::byte* dst, const Expect& expect) {
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  if (!arrived()) return false;
  Head head;
  if (Status s = look(expect, &head); !s.ok()) [[unlikely]]
    return fail(std::move(s));
  switch (head.kind) {
    case Kind::Inline: copySmall(dst, line().payload, head.bytes); break;
    case Kind::Pull:
      if (Status s = readProcess(ends_.peerPid, head.place.where, dst, head.bytes); !s.ok()) return fail(std::move(s));
      break;
    case Kind::Piece:
    case Kind::Stream: {
      Result<bool> complete = gather(dst, head, expect.touchedBytes);
      if (!complete.ok()) return fail(complete.status());
      return *complete;
    }
    default: {
      Result<const std::byte*> data = open(head);
      if (!data.ok()) return fail(data.status());
      copyPiece(dst, *data, head.bytes, expect.touchedBytes);
      unclaim();
    }
  }
  consume(head.kind);
  return true;
}

// Done with the message: its line and slot, or the sender's memory, may be used again.
void ShmEndpoint::consume(Kind kind) {
  ++received_;
  prefetchWhenBehind();
  if (kind == Kind::Inline && received_ % creditBatch_ != 0) return;
  if (timed_ && kind != Kind::Inline) [[unlikely]]
    endTiming();
  in_.head().consumed.store(received_, std::memory_order_release);  // partner: hasLine(), hasSlot(), taken()
  ring(peerBell_);
}

// All messages of one send have the same beginning; a message that was there before us, however, is in the hands of
// both from now on.  `waited_` is that of this message until it is consumed.
void ShmEndpoint::beginTiming(int64_t beganNs) {
  if (beganNs == timedBeganNs_) return;
  timedBeganNs_ = beganNs;
  timedFromNs_ = waited_ ? beganNs : std::max(beganNs, nowNs());
}

// A sender in another time namespace has another clock: what it says is then of no use, and we say so.
void ShmEndpoint::endTiming() {
  const int64_t ns = nowNs() - timedFromNs_;
  const bool good = ns > 0 && ns <= UINT32_MAX;
  in_.head().timed.store(timedWord(received_, good ? static_cast<uint32_t>(ns) : 0), std::memory_order_relaxed);
}

// When messages come faster than we take them, the lines of the next ones are fetched while we work on this one.  Not
// otherwise: it would take the line away from the sender just before it writes there.
void ShmEndpoint::prefetchWhenBehind() {
  unwaited_ = std::exchange(waited_, false) ? 0 : unwaited_ + 1;
  looks_ = 0;
  if (unwaited_ > 2) __builtin_prefetch(&in_.line(received_ + 1));
}

}  // namespace tutti::shm
