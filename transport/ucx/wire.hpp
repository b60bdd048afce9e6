// What the two ends of a connection send each other, in the byte order of little-endian processors.
#pragma once

#include <bit>
#include <cstdint>

#include "src/base/status.hpp"
#include "src/collective/fingerprint.hpp"
#include "transport/same_setting.hpp"

namespace tutti::ucx {

static_assert(std::endian::native == std::endian::little, "wire.hpp is written for little-endian processors");

/// Of our active messages.
inline constexpr unsigned kMessageId = 7;

/// The header of an active message.
struct Header {
  uint64_t bytes = 0;
  Fingerprint call;
  uint64_t number = 0;      // of the message, from 1 on; 0: it tells `released` alone
  uint64_t released = 0;    // messages of the receiver's that the sender is done with
  uint32_t connection = 0;  // the receiver's number for it
  uint32_t key = 0;         // as its card says
};
inline constexpr size_t kHeaderBytes = sizeof(Header);
static_assert(kHeaderBytes == 48);

/// What an end tells of itself through the bootstrap's stream.
struct Card {
  static constexpr uint64_t kMagic = 0x3158435554;
  uint64_t magic = kMagic;
  uint64_t slotBytes = 0;
  uint64_t slots = 0;
  uint32_t connection = 0;
  uint32_t key = 0;
};

/// Errors: RemoteError: no card; InvalidUsage: the two ends are not set alike, naming the variable.
inline Status checkCard(const Card& mine, const Card& theirs, int peer) {
  if (theirs.magic != Card::kMagic)
    return remoteError(ErrorCode::Malformed, "rank ", peer, " sent no card of a ucx connection");
  TUTTI_TRY(checkSameSetting("TUTTI_SLOTS", mine.slots, theirs.slots, peer));
  return checkSameSetting("TUTTI_SLOT_BYTES", mine.slotBytes, theirs.slotBytes, peer);
}

/// Where an end stands with the messages of the other.
struct Inflow {
  uint64_t arrived = 0;    // all before have come
  uint64_t givenBack = 0;  // of those
  uint64_t slots = 0;
  uint64_t slotBytes = 0;
};
/// Whether a message with this header and so many bytes behind it may come; that it has not come before is for the
/// receiver to see.
constexpr bool canBe(const Header& header, uint64_t bytes, const Inflow& to) {
  return header.number > to.arrived && header.number - to.givenBack <= to.slots && header.bytes == bytes &&
         bytes <= to.slotBytes;
}

/// What ends say through the stream behind their cards.
struct Note {
  enum What : uint64_t { kEnds = 1, kHasAll = 2 };
  uint64_t what = 0;
  uint64_t sent = 0;   // messages; kEnds alone
  uint64_t taken = 0;  // of the other end's; kHasAll: no more will come
};

/// Whether an end may say this that has sent `arrived` messages or more and was sent `written`.
constexpr bool canBe(const Note& note, uint64_t arrived, uint64_t written) {
  if (note.taken > written) return false;
  return note.what == Note::kHasAll || (note.what == Note::kEnds && note.sent >= arrived);
}

}  // namespace tutti::ucx
