// What the two ends of a connection write to each other, in the byte order of little-endian processors.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "transport/same_setting.hpp"
#include "transport/verbs/device.hpp"

namespace tutti::verbs {

static_assert(std::endian::native == std::endian::little, "wire.hpp is written for little-endian processors");

/// Precedes the payload of a message in its slot.  The last field shows that the slot has been written.
struct Header {
  Fingerprint call;
  uint64_t check = 0;     // of a small message: checkOf()
  uint32_t bytes = 0;     // of the message
  uint32_t released = 0;  // messages that this end is done with, the low bits
  uint8_t pieces = 1;     // that the message comes in, each with 32 bits of its own
  uint8_t lent = 0;       // 1: the receiver reads it where the loan says that follows; 0: it follows
  uint8_t silent = 0;     // 1: no 32 bits come with it, and nothing completes at the receiver
  uint8_t awake = 0;      // 1: the sender finds silent messages, until it says that it sleeps
  uint32_t number = 0;    // of the message, from 1 on, the low bits
  bool operator==(const Header&) const = default;
};
inline constexpr size_t kHeaderBytes = sizeof(Header);
static_assert(kHeaderBytes == 40);

/// Where the sender lends a message.
struct Loan {
  uint64_t address = 0;
  std::array<uint32_t, kMostRails> keys{};
};

/// What follows a header in its slot.
inline size_t payloadBytes(const Header& header) { return header.lent != 0 ? sizeof(Loan) : header.bytes; }

/// Messages of so much may be found by a look at their slot: the check takes less than what completes does.
inline constexpr size_t kMostCheckedBytes = 4096;

/// All bits of both words count for all bits of the result.  Source: wyhash (Wang Yi), the folded product.
inline uint64_t folded(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// Of a header and its payload, which tells a message that is there from one that is coming: nothing promises in which
/// order an adapter's bytes become visible.  take(at, n): the n <= 8 bytes of payload from there on, called once for
/// each byte, in order.
template <class Take>
uint64_t checkOf(const Header& header, size_t bytes, Take take) {
  constexpr std::array<uint64_t, 4> kOdd = {0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3,
                                            0x589965cc75374cc3};
  uint64_t check = folded(header.call.head ^ kOdd[0], header.call.count ^ kOdd[1]);
  check = folded((uint64_t{header.bytes} << 32 | header.released) ^ kOdd[2], check ^ header.number);
  const uint32_t rest =
      uint32_t{header.pieces} << 24 | uint32_t{header.lent} << 16 | uint32_t{header.silent} << 8 | header.awake;
  check = folded(rest ^ kOdd[3], check ^ kOdd[0]);
  size_t at = 0;
  if (bytes >= 64) {  // four products at a time, as none waits for another
    std::array<uint64_t, 4> lanes = {check, check, check, check};
    for (; bytes - at >= 64; at += 64) {
      for (size_t k = 0; k < lanes.size(); ++k) {
        const uint64_t even = take(at + 16 * k, 8);
        lanes[k] = folded(even ^ kOdd[k], take(at + 16 * k + 8, 8) ^ lanes[k]);
      }
    }
    check = folded(lanes[0] ^ kOdd[0], lanes[1]) ^ folded(lanes[2] ^ kOdd[1], lanes[3]);
  }
  for (; bytes - at >= 8; at += 8) check = folded(take(at, 8) ^ kOdd[2], check ^ kOdd[3]);
  return at < bytes ? folded(take(at, bytes - at) ^ kOdd[2], check ^ kOdd[3]) : check;
}
inline uint64_t checkOf(const Header& header, const std::byte* payload, size_t bytes) {
  return checkOf(header, bytes, [payload](size_t at, size_t n) {
    uint64_t word = 0;
    std::memcpy(&word, payload + at, n);
    return word;
  });
}
/// The same of a payload that is copied on the way.
inline uint64_t checkOfCopied(const Header& header, const std::byte* payload, size_t bytes, std::byte* into) {
  return checkOf(header, bytes, [payload, into](size_t at, size_t n) {
    uint64_t word = 0;
    std::memcpy(&word, payload + at, n);
    std::memcpy(into + at, &word, n);
    return word;
  });
}

/// The 32 bits beside a write.  Of a message's piece: the low bits of the message's number, and which piece; the first
/// one has the header.  Of a bare message, whose header stays at home: the low bits of its number, and how its header
/// differs from that of the message before.  Else the low bits of the number of messages that have been released; with
/// a rail that this end uses no more, of those that have come whole; with kSleeps, of those that this end had sent when
/// it went to sleep.
inline constexpr uint32_t kMessageCame = uint32_t{1} << 31;
inline constexpr uint32_t kRailLost = uint32_t{1} << 30;  // without kMessageCame
inline constexpr uint32_t kSleeps = uint32_t{1} << 29;    // without either
inline constexpr uint32_t kBare = uint32_t{1} << 28;      // without any of these
inline constexpr int kPieceShift = 25;
inline constexpr int kRailShift = 28;
inline constexpr uint32_t kCounterBits = (uint32_t{1} << kPieceShift) - 1;
inline constexpr uint32_t kMostPieces = kMostRails * kMostQueuePairs;
static_assert(kMostPieces <= 64 && kMostRails <= 4);
constexpr uint32_t pieceWord(uint64_t number, uint32_t piece) {
  return kMessageCame | piece << kPieceShift | (static_cast<uint32_t>(number) & kCounterBits);
}
constexpr uint32_t pieceOf(uint32_t word) { return (word & ~kMessageCame) >> kPieceShift; }
/// generation: times that the rail was taken up again, modulo kGenerations.
inline constexpr uint32_t kGenerations = 1U << (kRailShift - kPieceShift);
constexpr uint32_t lostRailWord(uint32_t rail, uint32_t generation, uint64_t whole) {
  return kRailLost | rail << kRailShift | generation % kGenerations << kPieceShift |
         (static_cast<uint32_t>(whole) & kCounterBits);
}
constexpr uint32_t lostRailOf(uint32_t word) { return (word & ~kRailLost) >> kRailShift; }
constexpr uint32_t lostGenerationOf(uint32_t word) { return word >> kPieceShift & (kGenerations - 1); }
/// Of a bare message: it belongs to the next call, and so many messages more have been released.
inline constexpr uint32_t kNextCall = uint32_t{1} << 27;
inline constexpr uint32_t kMostReleasedBare = 3;
constexpr bool isBare(uint32_t word) { return word >> kRailShift == kBare >> kRailShift; }
/// The header of a bare message behind that of the message before.
inline Header bareHeader(const Header& before, uint32_t word) {
  Header header = before;
  if ((word & kNextCall) != 0) header.call = nextOf(before.call);
  header.released = (before.released + (word >> kPieceShift & kMostReleasedBare)) & kCounterBits;
  header.check = 0;
  header.silent = 0;
  ++header.number;
  return header;
}
/// The word that says all of this header, behind that of the message before; none: the header has to travel.
inline std::optional<uint32_t> bareWord(const Header& before, Header header) {
  const uint32_t released = (header.released - before.released) & kCounterBits;
  if (released > kMostReleasedBare) return std::nullopt;
  header.check = 0;
  header.silent = 0;
  for (const uint32_t call : {0U, kNextCall}) {
    const uint32_t word = kBare | call | released << kPieceShift | (header.number & kCounterBits);
    if (bareHeader(before, word) == header) return word;
  }
  return std::nullopt;
}
/// Whether a header in front of so many bytes takes a packet more.
constexpr bool takesPacket(size_t bytes, size_t mtuBytes) {
  const auto packets = [mtuBytes](size_t all) { return std::max<size_t>(1, (all + mtuBytes - 1) / mtuBytes); };
  return packets(kHeaderBytes + bytes) > packets(bytes);
}

/// The counter near `known` whose low bits are these: less than half of what these count before or after it.
inline uint64_t nearest(uint32_t low, uint64_t known) {
  const uint32_t ahead = (low - static_cast<uint32_t>(known)) & kCounterBits;
  return ahead <= kCounterBits / 2 ? known + ahead : known + ahead - (uint64_t{kCounterBits} + 1);
}
/// Whether a header may say that its message comes in so many pieces.
constexpr bool canBePieces(uint32_t pieces) { return pieces >= 1 && pieces <= kMostPieces; }
/// The counter whose low bits are these, at most `ahead` after `known`; nothing: there is none.
inline std::optional<uint64_t> widen(uint32_t low, uint64_t known, uint64_t ahead) {
  const uint64_t step = (low - known) & kCounterBits;
  return step <= ahead ? std::optional(known + step) : std::nullopt;
}

/// What an end tells of one of its rails.
struct RailCard {
  ibv_gid gid{};
  uint32_t memoryKey = 0;
  uint16_t localId = 0;  // LID
  uint8_t mtu = IBV_MTU_1024;
  uint8_t ethernet = 0;
  uint32_t readsServed = 0;  // RDMA reads of the other end that it serves at a time, on a queue pair
  uint32_t unused = 0;
  std::array<uint32_t, kMostQueuePairs> queuePairs{};
};
static_assert(sizeof(RailCard) == 32 + 4 * kMostQueuePairs);

/// What an end tells of itself through the bootstrap's stream when its queue pairs are there.
struct ConnectionCard {
  static constexpr uint32_t kMagic = 0x35425256;
  uint32_t magic = kMagic;
  uint32_t packetNumber = 0;
  uint32_t slots = 0;
  uint32_t queuePairs = 1;  // on each rail
  uint64_t slotBytes = 0;
  uint64_t memory = 0;  // where its slots begin
  uint32_t rails = 1;
  uint32_t readsStaged = 0;  // 1: this end may read messages that are copied where the other end has them staged
  std::array<RailCard, kMostRails> rail{};
};
static_assert(sizeof(ConnectionCard) == 40 + kMostRails * sizeof(RailCard));

/// A step of an end in an attempt to use a rail again, through the same stream.
struct ReturnCard {
  static constexpr uint32_t kMagic = 0x4b424352;
  enum class Kind : uint32_t {
    Offer = 1,  // here are new queue pairs
    Connected,  // they are ready to receive from the other end's
    Proven,     // one of its operations has arrived
    Failed,     // this attempt has come to nothing
  };
  uint32_t magic = kMagic;
  Kind kind = Kind::Offer;
  uint32_t rail = 0;
  uint32_t attempt = 0;
  uint32_t packetNumber = 0;
  uint32_t unused = 0;
  RailCard card{};  // of an offer
};
static_assert(sizeof(ReturnCard) == 24 + sizeof(RailCard));

/// Rail k of an end goes to rail k of the other; an end that has more of them leaves the rest.
inline uint32_t commonRails(const ConnectionCard& mine, const ConnectionCard& theirs) {
  return std::min(mine.rails, theirs.rails);
}

/// The most bytes of a packet that all common rails take.
inline size_t mtuBytes(const ConnectionCard& mine, const ConnectionCard& theirs) {
  uint8_t least = IBV_MTU_4096;
  for (uint32_t k = 0; k < commonRails(mine, theirs); ++k)
    least = std::min({least, mine.rail[k].mtu, theirs.rail[k].mtu});
  return size_t{128} << least;
}

/// Whether an end may tell this of a rail; the rest of it is addresses, which only the adapter can judge.
inline bool isSound(const RailCard& card) {
  return card.mtu >= IBV_MTU_256 && card.mtu <= IBV_MTU_4096 && card.ethernet <= 1 && card.readsServed <= UINT8_MAX;
}

/// Whether an end may say this of one of `rails` rails.
inline bool isSound(const ReturnCard& card, uint32_t rails) {
  using Kind = ReturnCard::Kind;
  return card.magic == ReturnCard::kMagic && card.rail < rails && card.kind >= Kind::Offer &&
         card.kind <= Kind::Failed && (card.kind != Kind::Offer || isSound(card.card));
}

/// Errors: RemoteError: no card; InvalidUsage: the two ends are not set alike, naming the variable.
inline Status checkCard(const ConnectionCard& mine, const ConnectionCard& theirs, int peer) {
  if (theirs.magic != ConnectionCard::kMagic || theirs.rails < 1 || theirs.rails > kMostRails) {
    return remoteError(ErrorCode::Malformed, "rank ", peer, " sent no card of a verbs connection");
  }
  TUTTI_TRY(checkSameSetting("TUTTI_SLOTS", mine.slots, theirs.slots, peer));
  TUTTI_TRY(checkSameSetting("TUTTI_SLOT_BYTES", mine.slotBytes, theirs.slotBytes, peer));
  TUTTI_TRY(checkSameSetting("TUTTI_IB_QPS_PER_CONNECTION", mine.queuePairs, theirs.queuePairs, peer));
  for (uint32_t k = 0; k < commonRails(mine, theirs); ++k) {
    if (!isSound(theirs.rail[k]))
      return remoteError(ErrorCode::Malformed, "rank ", peer, " sent a card of a verbs port that makes no sense");
    if (mine.rail[k].ethernet == theirs.rail[k].ethernet) continue;
    return invalidUsage(ErrorCode::AdapterChoice, "port ", k + 1, " of this rank's and of rank ", peer,
                        "'s are one of InfiniBand, the other of RoCE; TUTTI_IB_HCA chooses others, in its order");
  }
  return {};
}

}  // namespace tutti::verbs
