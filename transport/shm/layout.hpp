// What lies where in a shared-memory segment.  Both sides compute it from the same few numbers; nothing in a segment is
// an address or an offset.
//
// A rank owns one segment and is the receiver of everything in it but its boards and outboxes, of which it is the
// sender:
//
//   SegmentHeader                 who owns this, the numbers of the layout, and the owner's doorbell
//   board (BoardUse 0), (1)       control lines that every rank of the host reads, and how far each has read
//   outbox (lane 0) ...           bytes of messages to several peers, read by each
//   inbox (peer 0, lane 0)        InboxHead, control lines, the ring for small messages, `slots` slots
//   inbox (peer 0, lane 1) ...    inbox (peer p, lane l) is number p * lanes + l
//
// Every message takes the next control line.  One whose bytes do not fit there takes bytes of the ring as well, in
// whole line pairs, or, if it is larger than kWholeBytes, the next slot.  The ring has room for many, so that a root
// which broadcasts a kilobyte over and over runs ahead, and small ones lie close together, so that they stay in the
// cache.
//
// The file is sparse: what nobody touches costs nothing.  A slot is longer than its data by a pair of lines, so that
// slots of a power of two do not all begin in the same set of a cache.
//
// Every control word has one writer.  Words of different writers are 128 bytes apart, for processors fetch lines in
// pairs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/status.hpp"
#include "transport/transport.hpp"

namespace tutti::shm {

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kSpacing = 128;
inline constexpr size_t kInlineBytes = kBoardBytes;
/// Control lines of an inbox and a board, which is how many messages may be on their way.  With a core for every rank a
/// few are enough, and stay in the first cache.  Where ranks share cores, a rank that runs ahead (a broadcast's root)
/// has to use its time on the core for many calls, since each change of ranks costs as much as ten of them.  Powers of
/// two.
inline constexpr uint32_t kLines = 32;
inline constexpr uint32_t kCrowdedLines = 128;
/// The largest small message.
inline constexpr size_t kSmallBytes = 8 << 10;
/// The largest message that is written whole before it is announced, most of them into the ring.  A reader that follows
/// the writer step by step takes lines that are still in the writer's first cache, which takes three times as long as
/// all copying, one after the other, does at 16 KiB; from here on steps that overlap are the faster way.
inline constexpr size_t kWholeBytes = 64 << 10;
/// The least that is filled in steps, for a receiver that has nothing else to do (InboxHead::awaited).  An EPYC gains
/// from half of this on; 16 KiB are too few on the Xeon that the above was measured on.
inline constexpr size_t kLeastStreamBytes = 48 << 10;
/// Larger than the first cache by far: a line that the reader still has there, or the writer, takes twice as long to
/// change hands as one that has gone on to the second cache.
inline constexpr size_t kRingBytes = 32 * kSmallBytes;
/// The part of the ring for messages of up to kMostHotBytes (on shared cores for all) between ranks that answer each
/// other: there is one on its way at a time, and what matters is that it is written and read where the last ones were.
inline constexpr size_t kHotBytes = 2 * kSmallBytes;
inline constexpr size_t kMostHotBytes = 1 << 10;
static_assert(2 * kWholeBytes <= kRingBytes - kHotBytes);  // in one piece, wherever the one before it ends

/// What a message is.
enum class Kind : uint8_t {
  Inline = 1,   // payload: the bytes
  Slot = 2,     // payload: DirectPayload; the bytes are in the data of slot `where`
  Piece = 3,    // a slot's worth of a message larger than a slot; `bytes` is the size of the whole; filled as Stream is
  Address = 4,  // payload: DirectPayload; the receiver is of the same process and reads at `where`
  Mapped = 5,   // payload: DirectPayload; the receiver reads through its mapping of the allocation, at offset `where`
  Pull = 6,     // payload: DirectPayload; the receiver reads the sender's address `where` by process_vm_readv
  Small = 8,    // payload: DirectPayload; the bytes are in the ring, at `where`
  Shared = 9,   // payload: DirectPayload; the bytes are in the sender's outbox of this lane, at `where`
  Stream = 7,   // as Slot, but announced before the bytes are there: InboxHead::filled says how far they are
};

/// Announces one message.  Written by the sender, `sequence` last; read by the receiver, `sequence` first.  A pair of
/// cache lines, of which the second is touched by payloads of more than 32 bytes only.
struct alignas(kSpacing) ControlLine {
  /// Lower half: number of the message, from 1, modulo 2^32; never reset.  A line's next message has another number
  /// than its last one.  Upper half: how many messages of the other direction its sender is done with, modulo 2^32,
  /// which saves it from looking at `consumed` while both sides talk.
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> kindAndBytes;  // Kind in the upper 8 bits, size in the lower 56
  std::atomic<uint64_t> callHead;      // Fingerprint
  std::atomic<uint64_t> callCount;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(ControlLine) == kSpacing);
/// Bytes of the payload in the first line of the two.
inline constexpr size_t kFirstLinePayload = kLineBytes - offsetof(ControlLine, payload);
inline constexpr int kBytesBits = 56;  // of ControlLine::kindAndBytes
inline constexpr uint64_t kBytesMask = (uint64_t{1} << kBytesBits) - 1;

inline uint64_t kindAndBytes(Kind kind, size_t bytes) { return static_cast<uint64_t>(kind) << kBytesBits | bytes; }

/// The payload of a message that carries a place instead of bytes.
struct DirectPayload {
  uint64_t idHigh;
  uint64_t idLow;
  uint64_t where;
  int64_t beganNs = 0;  // when the send was called, where the receiver is to say what the message took; else 0
};
static_assert(sizeof(DirectPayload) <= kFirstLinePayload);

struct InboxHead {
  /// Written by the receiver: number of the last message it is done with.  Frees that message's line and slot and tells
  /// the sender of a direct message that its memory is its own again.  Of inline messages only one in
  /// Layout::creditBatch() is told: the sender needs no more, and each costs the transfer of this line.
  alignas(kSpacing) std::atomic<uint64_t> consumed;
  /// Written by the receiver, before `consumed`: the low half of the number of the last timed message, and what it took
  /// in nanoseconds (timedWord()).
  std::atomic<uint64_t> timed;
  /// Written by the receiver, rarely: the number of the Address message it is reading right now, or 0.
  alignas(kSpacing) std::atomic<uint64_t> claim;
  /// Written by the receiver, once: 1 if it may read the sender's memory with process_vm_readv.
  std::atomic<uint32_t> canPull;
  /// Written by the receiver, now and then: the low half of the number of a message that it has waited for.
  std::atomic<uint32_t> awaited;
  /// Written by the sender: how many bytes of Stream and Piece messages it has written since the beginning, all told.
  /// The receiver copies them out while the sender still copies the rest in.
  alignas(kSpacing) std::atomic<uint64_t> filled;
  /// Written by the sender, once: it has taken back everything it ever offered.
  alignas(kSpacing) std::atomic<uint32_t> revoked;
};
static_assert(sizeof(InboxHead) == 4 * kSpacing);

/// InboxHead::timed.  0 ns: the two clocks do not fit.
inline uint64_t timedWord(uint64_t message, uint32_t ns) { return message << 32 | ns; }

/// How a rank that sleeps is woken.  `sleeping` is the owner's; `rings` is the one word here with many writers (they
/// add to it), because a futex needs a word that changes and any peer may be the one that rings.
struct Doorbell {
  alignas(kSpacing) std::atomic<uint32_t> sleeping;
  alignas(kSpacing) std::atomic<uint32_t> rings;
};

/// Of a segment's header.
inline constexpr size_t kHeaderBytes = 4096;

/// The numbers from which everything else follows.  A value.
struct Layout {
  uint32_t nRanks = 0;
  uint32_t lanes = 0;
  uint32_t slots = 0;
  uint64_t slotBytes = 0;
  uint32_t lines = kLines;

  /// Checks the numbers, and lowers `lanes` where the segment would get too large to map one of each rank.  All ranks
  /// come to the same result.  Errors: InvalidUsage.
  static Result<Layout> fit(int nRanks, int lanes, int64_t slots, int64_t slotBytes, uint32_t lines = kLines);

  /// Divides `lines`, so that a sender that has filled all lines hears when they are free.  On shared cores it hears so
  /// late that it can then use half of them in one go.
  uint32_t creditBatch() const { return sharedCores() ? lines / 2 : lines / 4; }
  /// Ranks share cores; what the lines were chosen by.
  bool sharedCores() const { return lines == kCrowdedLines; }
  /// The largest message for the hot part of the ring.  Ranks that share a core share its caches, too: there, the less
  /// memory the better, whatever the size.
  size_t mostHotBytes() const { return sharedCores() ? kSmallBytes : kMostHotBytes; }
  /// What an inbox has before its ring.
  size_t controlBytes() const { return sizeof(InboxHead) + lines * sizeof(ControlLine); }
  size_t slotStride() const { return (slotBytes + kSpacing - 1) / kSpacing * kSpacing + kSpacing; }
  size_t inboxStride() const { return controlBytes() + kRingBytes + slots * slotStride(); }
  size_t boardBytes() const { return (lines * sizeof(ControlLine) + nRanks * kSpacing + 4095) / 4096 * 4096; }
  /// Room for as many of the largest messages as an inbox has slots, wherever the first of them begins.
  size_t outboxBytes() const { return (slots + 1) * ((slotBytes + 4095) / 4096 * 4096); }
  size_t boardOffset(BoardUse use) const { return kHeaderBytes + static_cast<size_t>(use) * boardBytes(); }
  size_t outboxOffset(int lane) const;
  size_t inboxOffset(int peer, int lane) const;
  size_t totalBytes() const;
  bool operator==(const Layout&) const = default;
};

struct SegmentId {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const SegmentId&) const = default;
};

/// The first bytes of a segment.  Written by the owner before anybody else can see the segment; constant afterwards,
/// the doorbell excepted.
struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t rank;
  Layout layout;
  SegmentId id;
  Doorbell bell;
};
inline constexpr uint64_t kMagic = 0x314d485349545455;  // "UTTISHM1"
inline constexpr uint32_t kVersion = 9;
static_assert(sizeof(SegmentHeader) <= kHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

/// A rank's board, seen from either side.  A value; borrows the segment.
class Board {
 public:
  Board(std::byte* base, const Layout& layout) : base_(base), lines_(layout.lines) {}
  /// The control line of message number `message` - 1.
  ControlLine& line(uint64_t message) const { return reinterpret_cast<ControlLine*>(base_)[message & (lines_ - 1)]; }
  /// Written by reader `rank`: number of a message up to which it is done with all; see Layout::creditBatch().
  std::atomic<uint64_t>& read(int rank) const {
    std::byte* words = base_ + lines_ * sizeof(ControlLine);
    return *reinterpret_cast<std::atomic<uint64_t>*>(words + static_cast<size_t>(rank) * kSpacing);
  }
  std::byte* begin() const { return base_; }

 private:
  std::byte* base_;
  uint32_t lines_;
};

/// One inbox, seen from either side.  A value; borrows the segment.
class Inbox {
 public:
  Inbox(std::byte* base, const Layout& layout)
      : base_(base), lines_(layout.lines), ring_(layout.controlBytes()), stride_(layout.slotStride()) {}
  InboxHead& head() const { return *reinterpret_cast<InboxHead*>(base_); }
  /// The control line of message number `message` - 1.
  ControlLine& line(uint64_t message) const {
    return reinterpret_cast<ControlLine*>(base_ + sizeof(InboxHead))[message & (lines_ - 1)];
  }
  std::byte* ring(uint64_t offset) const { return base_ + ring_ + offset; }
  std::byte* data(uint64_t slot) const { return base_ + ring_ + kRingBytes + slot * stride_; }
  std::byte* begin() const { return base_; }

 private:
  std::byte* base_;
  uint32_t lines_;
  size_t ring_;  // where it begins
  size_t stride_;
};

}  // namespace tutti::shm
