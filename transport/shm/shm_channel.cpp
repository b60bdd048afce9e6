#include "transport/shm/shm_channel.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/copy.hpp"

namespace tutti::shm {
namespace {

constexpr int kBytesBits = 56;
constexpr uint64_t kBytesMask = (uint64_t{1} << kBytesBits) - 1;

// From kSmallBytes on a message is filled in steps.  Smaller steps overlap better, but each costs the transfer of the
// line with `filled` (about 0.1 us).  Found with perf/micro/channel_pingpong.
size_t streamStep(size_t bytes) { return std::clamp<size_t>(bytes / 8 / kLineBytes * kLineBytes, 2 << 10, 8 << 10); }

void copyInline(std::byte* dst, const std::byte* src, size_t bytes) {
  if (bytes <= 32) [[likely]]
    return copySmall(dst, src, bytes);
  std::memcpy(dst, src, bytes);
}

}  // namespace

std::byte* StagingBuffer::atLeast(size_t bytes) {
  if (bytes > bytes_) {
    std::free(data_);
    bytes_ = roundToPages(bytes);
    data_ = static_cast<std::byte*>(std::aligned_alloc(4096, bytes_));
    if (data_ == nullptr) bytes_ = 0;
  }
  return data_;
}

ShmChannel::ShmChannel(ChannelEnds ends)
    : ends_(std::move(ends)),
      slotBytes_(ends_.mine->layout().slotBytes),
      slots_(ends_.mine->layout().slots),
      in_(ends_.mine->inbox(ends_.peer, ends_.lane)),
      out_(ends_.theirs->inbox(ends_.rank, ends_.lane)),
      peerBell_(ends_.theirs->bell()),
      lastInSlot_(slots_) {
  in_.head().canPull.store(ends_.canPull ? 1 : 0, std::memory_order_relaxed);
}

ShmChannel::~ShmChannel() {
  unclaim();
  withdraw();
}

Status ShmChannel::fail(Status why) {
  if (failure_.ok()) failure_ = std::move(why);
  return failure_;
}

// ---- Sending

// The receiver is done with a message; nonsense in `consumed` wraps around to "no".
bool ShmChannel::freed(uint64_t message) const { return seenConsumed_ >= message && sent_ - seenConsumed_ <= kLines; }

bool ShmChannel::hasLine() {
  if (sent_ - seenConsumed_ < kLines) [[likely]]
    return true;
  // Partner: consume().  Without acquire our new bytes could reach the line before the receiver has read the old ones.
  seenConsumed_ = out_.head().consumed.load(std::memory_order_acquire);
  return sent_ - seenConsumed_ < kLines;
}

// A line and a slot.
bool ShmChannel::hasSlot() {
  if (!hasLine()) return false;
  if (freed(lastInSlot_[sendSlot_])) [[likely]]
    return true;
  seenConsumed_ = out_.head().consumed.load(std::memory_order_acquire);  // partner: consume(), as in hasLine()
  return freed(lastInSlot_[sendSlot_]);
}

// A line, and `bytes` of the ring.
bool ShmChannel::hasPlace(size_t bytes) {
  const auto fits = [&] {
    return placeAfter(sendPlace_, bytes) - placeBehind_[seenConsumed_ % placeBehind_.size()] <= kRingBytes;
  };
  if (!hasLine()) return false;
  if (fits()) [[likely]]
    return true;
  seenConsumed_ = out_.head().consumed.load(std::memory_order_acquire);  // partner: consume(), as in hasLine()
  return sent_ - seenConsumed_ < kLines && fits();
}

// Everything of the message is written; make it visible.
void ShmChannel::post(Kind kind, size_t bytes, const Fingerprint& call) {
  ControlLine& line = nextLine();
  line.kindAndBytes.store((static_cast<uint64_t>(kind) << kBytesBits) | bytes, std::memory_order_relaxed);
  line.callHead.store(call.head, std::memory_order_relaxed);
  line.callCount.store(call.count, std::memory_order_relaxed);
  // Partner: arrived().  Without release the receiver could see the number before the bytes, and write into slots that
  // we still read because it saw the credit.
  line.sequence.store(received_ << 32 | static_cast<uint32_t>(++sent_), std::memory_order_release);
  if (kind == Kind::Small) {
    sendPlace_ = placeAfter(sendPlace_, bytes);
  } else if (kind != Kind::Inline) {
    lastInSlot_[sendSlot_] = sent_;
    if (++sendSlot_ == slots_) sendSlot_ = 0;
  }
  placeBehind_[sent_ % placeBehind_.size()] = sendPlace_;
  ring(peerBell_);
}

Result<bool> ShmChannel::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  if (bytes > slotBytes_) return sendPieces(data, bytes, call);
  if (bytes <= kInlineBytes) {
    if (!hasLine()) return false;
    copyInline(nextLine().payload, data, bytes);
    post(Kind::Inline, bytes, call);
    return true;
  }
  if (bytes < kSmallBytes) {
    if (!hasPlace(bytes)) return false;
    storeBytes(out_.ring(sendPlace_), data, bytes);
    post(Kind::Small, bytes, call);
    return true;
  }
  if (!hasSlot()) return false;
  stream(Kind::Stream, data, bytes, bytes, call);
  return true;
}

// Announce a slot, then fill it.
void ShmChannel::stream(Kind kind, const std::byte* data, size_t bytes, size_t messageBytes, const Fingerprint& call) {
  std::byte* to = out_.data(sendSlot_);
  post(kind, messageBytes, call);
  const size_t fullStep = streamStep(bytes);
  for (size_t at = 0; at < bytes; at += fullStep) {
    const size_t step = std::min(fullStep, bytes - at);
    // Out of line: of a size that it knows to be small the compiler makes `rep movsq`, 5 % slower into a slot that the
    // other core has just read.
    copyPiece(to + at, data + at, step, 0);
    filled_ += step;
    out_.head().filled.store(filled_, std::memory_order_release);  // partner: filledOfSlot()
  }
  ring(peerBell_);  // it may have seen the announcement and gone back to sleep
}

Result<bool> ShmChannel::sendPieces(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_ASSERT_CMP(bytes, <=, kBytesMask);
  while (hasSlot()) {
    const size_t piece = std::min(slotBytes_, bytes - sentOfPieces_);
    stream(Kind::Piece, data + sentOfPieces_, piece, bytes, call);
    sentOfPieces_ += piece;
    if (sentOfPieces_ < bytes) continue;
    sentOfPieces_ = 0;
    return true;
  }
  return false;
}

Result<std::span<std::byte>> ShmChannel::reserve() {
  if (!failure_.ok()) return failure_;
  if (!hasSlot()) return std::span<std::byte>();
  return std::span<std::byte>(out_.data(sendSlot_), slotBytes_);
}

Result<bool> ShmChannel::commit(size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) return failure_;
  TUTTI_ASSERT_CMP(bytes, <=, slotBytes_);
  TUTTI_ASSERT(hasSlot());
  post(Kind::Slot, bytes, call);
  return true;
}

bool ShmChannel::canOffer(const std::byte* data, size_t bytes) const {
  if (bytes > maxDirectBytes()) return false;
  if (bytes == 0 || ends_.sameProcess || hostLookup(data, bytes)) return true;
  return ends_.mayOfferPull && out_.head().canPull.load(std::memory_order_relaxed) == 1;
}

bool ShmChannel::offersMapped(const std::byte* data, size_t bytes) const {
  return !ends_.sameProcess && bytes <= maxDirectBytes() && hostLookup(data, bytes).has_value();
}

Status ShmChannel::describePlace(const std::byte* data, size_t bytes, Kind* kind, DirectPayload* place) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (ends_.sameProcess) {
    *kind = Kind::Address;
    *place = {0, 0, address};
    return {};
  }
  if (const std::optional<HostSpan> span = hostLookup(data, bytes)) {
    TUTTI_TRY(ends_.allocations->serve(span->id));
    *kind = Kind::Mapped;
    *place = {span->id.high, span->id.low, span->offset};
    return {};
  }
  *kind = Kind::Pull;
  *place = {0, 0, address};
  return {};
}

Result<Ticket> ShmChannel::offer(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) return failure_;
  if (!hasSlot() || !canOffer(data, bytes)) return Ticket{0};
  if (out_.head().revoked.load(std::memory_order_relaxed) != 0) return Ticket{0};
  Kind kind = Kind::Slot;  // of no bytes: unlike an inline message's, its credit comes at once
  DirectPayload place{};
  if (Status s = bytes == 0 ? Status() : describePlace(data, bytes, &kind, &place); !s.ok()) return fail(std::move(s));
  std::memcpy(nextLine().payload, &place, sizeof place);
  post(kind, bytes, call);
  return Ticket{sent_};
}

Result<bool> ShmChannel::taken(Ticket ticket) {
  if (!failure_.ok()) return failure_;
  if (seenConsumed_ >= ticket) return true;
  seenConsumed_ = out_.head().consumed.load(std::memory_order_acquire);  // partner: consume(), as in hasLine()
  return seenConsumed_ >= ticket;
}

// The reader says "I read" and then looks whether the offers still stand; the owner takes the offers back and then
// looks whether somebody reads.  All four accesses are seq_cst, so that there is one order of them: whoever comes
// second sees the first, and it cannot be that the reader reads while the owner believes that nobody does.
void ShmChannel::withdraw() {
  unclaim();
  out_.head().revoked.store(1, std::memory_order_seq_cst);  // partner: claim()
  if (!ends_.sameProcess) return;  // readers of other processes read through mappings or the kernel, never through ours
  for (int tries = 0; out_.head().claim.load(std::memory_order_seq_cst) != 0; ++tries) {
    const timespec pause{0, tries < 100 ? 0 : 50'000};
    nanosleep(&pause, nullptr);
  }
}

bool ShmChannel::claim() {
  in_.head().claim.store(received_ + 1, std::memory_order_seq_cst);  // partner: withdraw()
  claimed_ = true;
  if (in_.head().revoked.load(std::memory_order_seq_cst) == 0) [[likely]]
    return true;
  unclaim();
  return false;
}

void ShmChannel::unclaim() {
  if (!claimed_) return;
  claimed_ = false;
  in_.head().claim.store(0, std::memory_order_release);  // partner: withdraw(); our reads are done before it sees 0
}

// ---- Receiving

// Whether the next message is there.  Any number but the next one is that of the line's last message.
bool ShmChannel::arrived() {
  const uint64_t word = line().sequence.load(std::memory_order_acquire);  // partner: post()
  if (static_cast<uint32_t>(word) == static_cast<uint32_t>(received_ + 1)) return true;
  waited_ = true;
  return false;
}

// The peer is done with so many of our messages, modulo 2^32.  An old number is one that lies behind what we know.
void ShmChannel::noteCredit(uint32_t consumed) {
  const auto more = static_cast<int32_t>(consumed - static_cast<uint32_t>(seenConsumed_));
  if (more > 0) seenConsumed_ += static_cast<uint64_t>(more);
}

Status ShmChannel::look(const Expect& expect, Head* head) {
  const ControlLine& line = this->line();
  noteCredit(static_cast<uint32_t>(line.sequence.load(std::memory_order_relaxed) >> 32));
  const uint64_t kindAndBytes = line.kindAndBytes.load(std::memory_order_relaxed);
  const Fingerprint call{line.callHead.load(std::memory_order_relaxed), line.callCount.load(std::memory_order_relaxed)};
  head->kind = static_cast<Kind>(kindAndBytes >> kBytesBits);
  head->bytes = kindAndBytes & kBytesMask;
  if (call != expect.call || head->bytes != expect.bytes) [[unlikely]]
    return refuse(expect, call, head->bytes);
  const bool simple = (head->kind == Kind::Inline && head->bytes <= kInlineBytes) ||
                      (head->kind == Kind::Small && head->bytes < kSmallBytes) ||
                      ((head->kind == Kind::Slot || head->kind == Kind::Stream) && head->bytes <= slotBytes_);
  if (!simple) {
    std::memcpy(&head->place, line.payload, sizeof head->place);
    TUTTI_TRY(checkBounds(*head));
  }
  asked_.store(received_ + 1, std::memory_order_relaxed);
  return {};
}

Status ShmChannel::checkBounds(const Head& head) const {
  const bool inPieces = gathered_ != 0;
  const bool good = head.kind == Kind::Piece     ? head.bytes > slotBytes_
                    : head.kind == Kind::Address ? ends_.sameProcess && !inPieces
                    : head.kind == Kind::Pull    ? ends_.canPull && !inPieces
                    : head.kind == Kind::Mapped  ? !inPieces
                                                 : false;
  if (good) return {};
  return remoteError("shm: rank ", ends_.peer, " sent a control line that cannot be (kind ",
                     static_cast<int>(head.kind), ", ", head.bytes, " bytes)");
}

Status ShmChannel::refuse(const Expect& expect, const Fingerprint& call, size_t bytes) {
  seen_ = call;
  return invalidUsage("ranks ", ends_.rank, " and ", ends_.peer, " disagree: rank ", ends_.rank, " is in ",
                      describeCall(expect.call), " and expects ", expect.bytes, " bytes, but rank ", ends_.peer,
                      " sent ", bytes, " bytes of ", describeCall(call));
}

Status ShmChannel::openMapped(const Head& head, const std::byte** data) {
  const AllocationId id{head.place.idHigh, head.place.idLow};
  if (lastMapping_ == nullptr || id != lastMapped_) {
    TUTTI_ASSIGN(lastMapping_, ends_.allocations->map(ends_.peer, id));
    lastMapped_ = id;
  }
  const size_t size = lastMapping_->bytes();
  if (head.place.where > size || head.bytes > size - head.place.where) {
    return remoteError("shm: rank ", ends_.peer, " offered ", head.bytes, " bytes at ", head.place.where,
                       " of an allocation of ", size, " bytes");
  }
  *data = lastMapping_->data() + head.place.where;
  return {};
}

// Where the bytes of a message can be read; for Address with our claim on it.  Not for Piece.
Result<const std::byte*> ShmChannel::open(const Head& head) {
  switch (head.kind) {
    case Kind::Inline: return static_cast<const std::byte*>(line().payload);
    case Kind::Small: return static_cast<const std::byte*>(in_.ring(receivePlace_));
    case Kind::Slot:
    case Kind::Stream: return static_cast<const std::byte*>(in_.data(receiveSlot_));
    case Kind::Address:
      if (!claim()) return remoteError("rank ", ends_.peer, " has given up and taken its memory back");
      return reinterpret_cast<const std::byte*>(head.place.where);
    case Kind::Mapped: {
      const std::byte* data = nullptr;
      TUTTI_TRY(openMapped(head, &data));
      return data;
    }
    case Kind::Pull: {
      std::byte* data = staging_.atLeast(head.bytes);
      if (data == nullptr) return systemError("no memory for ", head.bytes, " bytes");
      TUTTI_TRY(readProcess(ends_.peerPid, head.place.where, data, head.bytes));
      return static_cast<const std::byte*>(data);
    }
    case Kind::Piece: break;
  }
  return internalError("shm: no place to read kind ", static_cast<int>(head.kind));
}

// How many of the `bytes` of the current slot, a Stream's or Piece's, are there.
size_t ShmChannel::filledOfSlot(size_t bytes) const {
  return std::min<uint64_t>(bytes, in_.head().filled.load(std::memory_order_acquire) - streamed_);  // partner: stream()
}

// Copy what is there of a Stream or of Pieces.  True when the message is whole.
Result<bool> ShmChannel::gather(std::byte* dst, const Head& head) {
  while (true) {
    const size_t begin = gathered_ / slotBytes_ * slotBytes_;  // of this slot, within the message
    const size_t bytes = std::min(slotBytes_, head.bytes - begin);
    const size_t here = begin + filledOfSlot(bytes);
    if (here <= gathered_) return false;
    storeBytes(dst + gathered_, in_.data(receiveSlot_) + (gathered_ - begin), here - gathered_);
    gathered_ = here;
    if (gathered_ < begin + bytes) continue;
    streamed_ += bytes;
    consume(head.kind, bytes);
    if (gathered_ == head.bytes) break;
    if (!arrived()) return false;
    if (line().kindAndBytes.load(std::memory_order_relaxed) !=
        ((static_cast<uint64_t>(Kind::Piece) << kBytesBits) | head.bytes)) {
      return remoteError("shm: rank ", ends_.peer, " sent something else inside a message of ", head.bytes, " bytes");
    }
  }
  gathered_ = 0;
  return true;
}

Result<const std::byte*> ShmChannel::peek(const Expect& expect) {
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  if (peeked_ != nullptr) return peeked_;
  if (!arrived()) return static_cast<const std::byte*>(nullptr);
  Head head;
  if (Status s = look(expect, &head); !s.ok()) [[unlikely]]
    return fail(std::move(s));
  if (head.kind == Kind::Piece) {
    std::byte* whole = staging_.atLeast(head.bytes);
    if (whole == nullptr) return fail(systemError("no memory for ", head.bytes, " bytes"));
    Result<bool> complete = gather(whole, head);
    if (!complete.ok()) return fail(complete.status());
    if (!*complete) return static_cast<const std::byte*>(nullptr);
    peekedIsOurs_ = true;
    peeked_ = whole;
    return peeked_;
  }
  if (head.kind == Kind::Stream) {
    if (filledOfSlot(head.bytes) < head.bytes) return static_cast<const std::byte*>(nullptr);
    peekedStream_ = head.bytes;
  }
  Result<const std::byte*> data = open(head);
  if (!data.ok()) return fail(data.status());
  peeked_ = *data;
  peekedKind_ = head.kind;
  peekedBytes_ = head.bytes;
  if (head.kind == Kind::Pull) {
    consume(head.kind, head.bytes);  // the bytes are ours: the sender may have its memory back
    peekedIsOurs_ = true;
  }
  return peeked_;
}

void ShmChannel::release() {
  if (peeked_ == nullptr) return;
  peeked_ = nullptr;
  unclaim();
  streamed_ += std::exchange(peekedStream_, 0);
  if (!std::exchange(peekedIsOurs_, false)) consume(peekedKind_, peekedBytes_);
}

Result<bool> ShmChannel::receive(std::byte* dst, const Expect& expect) {
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  if (!arrived()) return false;
  Head head;
  if (Status s = look(expect, &head); !s.ok()) [[unlikely]]
    return fail(std::move(s));
  switch (head.kind) {
    case Kind::Inline: copyInline(dst, line().payload, head.bytes); break;
    case Kind::Pull:
      if (Status s = readProcess(ends_.peerPid, head.place.where, dst, head.bytes); !s.ok()) return fail(std::move(s));
      break;
    case Kind::Piece:
    case Kind::Stream: {
      Result<bool> complete = gather(dst, head);
      if (!complete.ok()) return fail(complete.status());
      return *complete;
    }
    default: {
      Result<const std::byte*> data = open(head);
      if (!data.ok()) return fail(data.status());
      storeBytes(dst, *data, head.bytes);
      unclaim();
    }
  }
  consume(head.kind, head.bytes);
  return true;
}

// Done with the message: its line and slot, or the sender's memory, may be used again.
void ShmChannel::consume(Kind kind, size_t bytes) {
  ++received_;
  prefetchWhenBehind();
  if (kind == Kind::Small) {
    receivePlace_ = placeAfter(receivePlace_, bytes);
  } else if (kind != Kind::Inline) {
    if (++receiveSlot_ == slots_) receiveSlot_ = 0;
  } else if (received_ % kCreditBatch != 0) {
    return;
  }
  in_.head().consumed.store(received_, std::memory_order_release);  // partner: hasLine(), hasSlot(), taken()
  ring(peerBell_);
}

// When messages come faster than we take them, the lines of the next ones are fetched while we work on this one.  Not
// otherwise: it would take the line away from the sender just before it writes there.
void ShmChannel::prefetchWhenBehind() {
  unwaited_ = std::exchange(waited_, false) ? 0 : unwaited_ + 1;
  if (unwaited_ > 2) __builtin_prefetch(&in_.line(received_ + 1));
}

std::optional<Fingerprint> ShmChannel::pending() const {
  const uint64_t next = asked_.load(std::memory_order_relaxed) + 1;
  const ControlLine& line = in_.line(next - 1);
  const uint64_t word = line.sequence.load(std::memory_order_acquire);  // partner: post()
  if (static_cast<uint32_t>(word) != static_cast<uint32_t>(next)) return std::nullopt;
  const Fingerprint call{line.callHead.load(std::memory_order_relaxed), line.callCount.load(std::memory_order_relaxed)};
  if (asked_.load(std::memory_order_acquire) + 1 != next) return std::nullopt;  // taken meanwhile: not pending
  return call;
}

}  // namespace tutti::shm
