// The sending half of ShmEndpoint.
#include <algorithm>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/copy.hpp"
#include "transport/shm/shm_endpoint.hpp"

namespace tutti::shm {
namespace {

// Beyond kWholeBytes a message is filled in steps.  Smaller ones overlap better, but each costs the transfer of the
// line with `filled` (about 0.1 us), and lets the reader come closer.  Found with perf/micro/endpoint_pingpong.
constexpr size_t kStreamStep = 16 << 10;

// A sender counts as a stream (it waits for no answer) after more messages than this since the last one that came.
constexpr uint64_t kMostUnanswered = 4;

// A sender runs ahead, and more will follow, when the receiver is not known to be done with so many messages.
constexpr uint64_t kAhead = 4;
// Bytes of a message whose lines are fetched ahead: the stores of longer ones get theirs several at a time.
constexpr size_t kMostFetched = 4 * kLineBytes;

// Takes a cache line from the other cores before there is anything to write.  Not __builtin_prefetch: without flags for
// a newer processor GCC makes a prefetch for reading of it.
void fetchToWrite(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

constexpr size_t roundToLines(size_t bytes) { return (bytes + kSpacing - 1) / kSpacing * kSpacing; }

}  // namespace

// The receiver is done with a message; nonsense in `consumed` wraps around to "no".
bool ShmEndpoint::freed(uint64_t message) const { return seenConsumed_ >= message && sent_ - seenConsumed_ <= lines_; }

// Partner: consume().  Without acquire our new bytes could reach a line, slot or the ring before the receiver has read
// the old ones.
void ShmEndpoint::seeConsumed() { seenConsumed_ = out_.head().consumed.load(std::memory_order_acquire); }

bool ShmEndpoint::hasLine() {
  if (sent_ - seenConsumed_ < lines_) [[likely]]
    return true;
  seeConsumed();
  return sent_ - seenConsumed_ < lines_;
}

/// The first slot that is free: what has been used lately is in the caches.
bool ShmEndpoint::pickSlot() {
  for (sendSlot_ = 0; sendSlot_ < slots_; ++sendSlot_) {
    if (freed(lastInSlot_[sendSlot_])) return true;
  }
  return false;
}

// A line and a slot.
bool ShmEndpoint::hasSlot() {
  if (!hasLine()) return false;
  if (reserved_) return true;
  if (pickSlot() && sendSlot_ == 0) [[likely]]
    return true;
  seeConsumed();
  return pickSlot() && sent_ - seenConsumed_ < lines_;
}

// Whether the peer answers what we send.
bool ShmEndpoint::answered() {
  if (received_ != receivedBefore_) {
    receivedBefore_ = received_;
    sentBefore_ = sent_;
  }
  return sent_ - sentBefore_ <= kMostUnanswered;
}

// A line, and `bytes` of the ring in one piece.
bool ShmEndpoint::hasPlace(size_t bytes) {
  if (!hasLine()) return false;
  const auto fits = [&](size_t ring) { return rings_[ring].fits(roundToLines(bytes), ringEnds(seenConsumed_)[ring]); };
  ring_ = 0;
  if (bytes <= mostHotBytes_ && answered() && fits(ring_)) [[likely]]
    return true;
  ring_ = 1;
  if (fits(ring_)) return true;
  seeConsumed();
  return sent_ - seenConsumed_ < lines_ && fits(ring_);
}

// Everything of the message is written; make it visible.
void ShmEndpoint::post(Kind kind, size_t bytes, const Fingerprint& call) {
  ControlLine& line = nextLine();
  line.kindAndBytes.store(kindAndBytes(kind, bytes), std::memory_order_relaxed);
  line.callHead.store(call.head, std::memory_order_relaxed);
  line.callCount.store(call.count, std::memory_order_relaxed);
  // Partner: arrived().  Without release the receiver could see the number before the bytes, and write into slots that
  // we still read because it saw the credit.
  line.sequence.store(received_ << 32 | static_cast<uint32_t>(++sent_), std::memory_order_release);
  if (kind != Kind::Inline && kind != Kind::Shared && kind != Kind::Small) {
    lastInSlot_[sendSlot_] = sent_;
    reserved_ = false;
  }
  if (sendBeganNs_ != 0 && kind != Kind::Inline) [[unlikely]]
    lastTimed_ = sent_;
  ringEnds(sent_) = {rings_[0].end(), rings_[1].end()};
  fetchNextLine(kind, bytes);
  ring(peerBell_);
}

// A sender that runs ahead ends its call as soon as its stores have drained (the next call waits for that), which takes
// as long as it takes to get the lines.  So it asks for the lines of a message like this one now: they come while this
// one's stores drain.  Where the receiver is not behind it would only take away the line that it looks at.
void ShmEndpoint::fetchNextLine(Kind kind, size_t bytes) {
  const uint64_t ahead = sent_ - seenConsumed_;
  if (ahead < kAhead || ahead >= lines_) return;
  const ControlLine& next = nextLine();
  fetchToWrite(&next);
  if (kind == Kind::Inline && bytes > kFirstLinePayload) fetchToWrite(&next.payload[kFirstLinePayload]);
  if (kind == Kind::Small) {
    const std::byte* const bytesOfNext = out_.ring(rings_[ring_].next());
    for (size_t at = 0; at < std::min(bytes, kMostFetched); at += kLineBytes) fetchToWrite(bytesOfNext + at);
  }
}

Result<bool> ShmEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  if (bytes > slotBytes_) return sendPieces(data, bytes, call);
  if (bytes <= kInlineBytes) {
    if (!hasLine()) return false;
    copySmall(nextLine().payload, data, bytes);
    post(Kind::Inline, bytes, call);
    return true;
  }
  const bool streams = bytes > kWholeBytes || (bytes >= kLeastStreamBytes && isAwaited());
  if (!streams && goesInRing(bytes)) {
    if (!hasPlace(bytes)) return false;
    const size_t offset = rings_[ring_].take(roundToLines(bytes));
    sayPlace({0, 0, offset});
    storeBytes(out_.ring(offset), data, bytes);
    post(Kind::Small, bytes, call);
    return true;
  }
  if (!hasSlot()) return false;
  if (streams) {
    stream(Kind::Stream, data, bytes, bytes, call);
    return true;
  }
  sayPlace({0, 0, sendSlot_});
  storeBytes(out_.data(sendSlot_), data, bytes);
  post(Kind::Slot, bytes, call);
  return true;
}

// Whether the receiver has waited for the next message, and so can copy out while we copy in.  Ranks that exchange
// messages are both busy with their own, and steps only make them wait for lines.
bool ShmEndpoint::isAwaited() const {
  return !sharedCores_ && out_.head().awaited.load(std::memory_order_relaxed) == static_cast<uint32_t>(sent_ + 1);
}

// Ranks on shared cores have the same caches: a message that is answered does best in the first free slot, where the
// last one was.
bool ShmEndpoint::goesInRing(size_t bytes) {
  return bytes <= kSmallBytes || (bytes <= kWholeBytes && !(sharedCores_ && answered()));
}

// Announce a slot, then fill it.
void ShmEndpoint::stream(Kind kind, const std::byte* data, size_t bytes, size_t messageBytes, const Fingerprint& call) {
  std::byte* to = out_.data(sendSlot_);
  sayPlace({0, 0, sendSlot_});
  post(kind, messageBytes, call);
  for (size_t at = 0; at < bytes; at += kStreamStep) {
    const size_t step = std::min(kStreamStep, bytes - at);
    // Out of line: of a size that it knows to be small the compiler makes `rep movsq`, 5 % slower into a slot that the
    // other core has just read.
    copyPiece(to + at, data + at, step, 0);
    filled_ += step;
    out_.head().filled.store(filled_, std::memory_order_release);  // partner: filledOfSlot()
  }
  ring(peerBell_);  // it may have seen the announcement and gone back to sleep
}

Result<bool> ShmEndpoint::sendPieces(const std::byte* data, size_t bytes, const Fingerprint& call) {
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

Result<std::span<std::byte>> ShmEndpoint::reserve() {
  if (!failure_.ok()) return failure_;
  if (!hasSlot()) return std::span<std::byte>();
  reserved_ = true;
  return std::span<std::byte>(out_.data(sendSlot_), slotBytes_);
}

Result<bool> ShmEndpoint::commit(size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) return failure_;
  TUTTI_ASSERT_CMP(bytes, <=, slotBytes_);
  TUTTI_ASSERT(hasSlot());
  sayPlace({0, 0, sendSlot_});
  post(Kind::Slot, bytes, call);
  return true;
}

bool ShmEndpoint::canOffer(const std::byte* data, size_t bytes) const {
  if (bytes > maxDirectBytes()) return false;
  if (bytes == 0 || ends_.sameProcess || hostLookup(data, bytes)) return true;
  return ends_.mayOfferPull && out_.head().canPull.load(std::memory_order_relaxed) == 1;
}

bool ShmEndpoint::offersMapped(const std::byte* data, size_t bytes) const {
  return !ends_.sameProcess && bytes <= maxDirectBytes() && hostLookup(data, bytes).has_value();
}

Status ShmEndpoint::describePlace(const std::byte* data, size_t bytes, Kind* kind, DirectPayload* place) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (ends_.sameProcess) {
    *kind = Kind::Address;
    *place = {0, 0, address};
    return {};
  }
  if (const std::optional<HostSpan> span = hostOffer(data, bytes)) {
    TUTTI_TRY(ends_.allocations->serve(span->id));
    *kind = Kind::Mapped;
    *place = {span->id.high, span->id.low, span->offset};
    return {};
  }
  *kind = Kind::Pull;
  *place = {0, 0, address};
  return {};
}

Result<Request> ShmEndpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) return failure_;
  if (sendsWait() || !canOffer(data, bytes)) return Endpoint::postSend(data, bytes, call);
  if (!hasSlot()) return Request{0};
  if (out_.head().revoked.load(std::memory_order_relaxed) != 0) return Request{0};
  Kind kind = Kind::Slot;  // of no bytes: unlike an inline message's, its credit comes at once
  DirectPayload place{};
  if (Status s = bytes == 0 ? Status() : describePlace(data, bytes, &kind, &place); !s.ok()) return fail(std::move(s));
  sayPlace(place);
  post(kind, bytes, call);
  return Request{sent_};
}

Result<Request> ShmEndpoint::share(uint64_t place, size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) return failure_;
  if (!hasLine()) return Request{0};
  sayPlace({0, 0, place});
  post(Kind::Shared, bytes, call);
  return Request{sent_};
}

Result<bool> ShmEndpoint::test(Request request) {
  if (request >= kSendInLine) [[unlikely]]
    return Endpoint::test(request);
  if (seenConsumed_ >= request) return true;
  if (!failure_.ok()) return failure_;
  seeConsumed();
  return seenConsumed_ >= request;
}

std::optional<int64_t> ShmEndpoint::timedNs() const {
  const uint64_t word = out_.head().timed.load(std::memory_order_relaxed);
  const auto ns = static_cast<uint32_t>(word);
  if (lastTimed_ == 0 || ns == 0 || word != timedWord(lastTimed_, ns)) return std::nullopt;
  return ns;
}

}  // namespace tutti::shm
