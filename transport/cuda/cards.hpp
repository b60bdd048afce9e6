// What ranks of one host tell each other of their device memory, and what of it can be judged without a driver.
//
// How large memory is that a peer offers by handle, nothing but the peer says: drivers are not documented to tell the
// size of what they have opened.  Pages have to be as many as a card says, or the driver does not map them.
#pragma once

#include <cstring>
#include <string>

#include "src/base/status.hpp"
#include "transport/cuda/ipc_memory.hpp"

namespace tutti::cuda {

/// Where the parts of an inbox (inbox.hpp) are.
struct InboxLayout {
  uint32_t slots = 0;
  size_t slotBytes = 0;

  static constexpr size_t kWordStride = 128;
  size_t fullOffset(uint32_t slot) const { return slot * kWordStride; }
  size_t busyOffset(uint32_t slot) const { return (slots + slot) * kWordStride; }
  size_t wordBytes() const { return 2 * slots * kWordStride; }
  size_t slotOffset(uint32_t slot) const { return slot * slotBytes; }
  size_t slotBytesOfAll() const { return slots * slotBytes; }
  bool operator==(const InboxLayout&) const = default;
};

/// What an end tells its peer of its inbox.
struct InboxCard {
  static constexpr uint64_t kMagic = 0x7475'7474'6962'6f78;
  uint64_t magic = kMagic;
  uint64_t processId = 0;
  uint64_t inboxId = 0;
  InboxLayout layout;
  uint64_t wordsOffset = 0, slotsOffset = 0;
  IpcOffer words, slots;
};

/// No allocation is as large: an offset beyond is none, and nothing overflows that is added below.
inline constexpr uint64_t kMostDeviceBytes = uint64_t{1} << 52;

/// Errors: RemoteError: it is no card, or of a rank that is not set alike.
inline Status checkInboxCard(const InboxCard& card, const InboxLayout& expected) {
  if (card.magic != InboxCard::kMagic || card.layout != expected) {
    return remoteError(ErrorCode::LayoutDiffers,
                       "a peer offers device memory of another layout than this rank's; set TUTTI_SLOTS alike");
  }
  const bool words = card.wordsOffset < kMostDeviceBytes && card.wordsOffset % InboxLayout::kWordStride == 0;
  if (words && card.slotsOffset < kMostDeviceBytes) return {};
  return remoteError(ErrorCode::Malformed, "a peer's card of its device memory makes no sense");
}

/// What a rank tells its peers of the memory that blocks of all of them use.
struct ResidentCard {
  static constexpr uint64_t kMagic = 0x7475'7474'6972'6573;
  uint64_t magic = kMagic;
  uint64_t id = 0;
  IpcOffer ends;
};
/// Errors: RemoteError: these bytes are none.
inline Result<ResidentCard> residentCardIn(const std::string& bytes) {
  ResidentCard card;
  if (bytes.size() != sizeof card)
    return remoteError(ErrorCode::Malformed, "a peer's card of its device memory has ", bytes.size(), " bytes");
  std::memcpy(&card, bytes.data(), sizeof card);
  if (card.magic != ResidentCard::kMagic)
    return remoteError(ErrorCode::Malformed, "a peer's card of its device memory makes no sense");
  return card;
}

/// What it takes to open registered memory (memory_exchange.hpp), beside a descriptor of pages.
struct LentCard {
  uint64_t bytes = 0;  // of all that is opened
  IpcOffer offer;      // not given: pages
};
/// Errors: RemoteError: there is no such memory.
inline Status checkLentCard(const LentCard& card) {
  if (card.bytes >= 1 && card.bytes <= kMostDeviceBytes && card.offer.given <= 1) return {};
  return remoteError(ErrorCode::Malformed, "a peer's card of registered memory makes no sense");
}

/// Where a message of `bytes` lies: `offset` bytes into a registration of its sender's.  id 0: in a slot.
struct LentPlace {
  /// The offset is the address: the reader is in the same process, and on the same device.
  static constexpr uint64_t kHere = UINT64_MAX;
  uint64_t id = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
/// Whether so many bytes at this place lie in memory of `opened` bytes.
constexpr bool isInside(const LentPlace& place, size_t bytes, size_t opened) {
  return place.offset <= opened && bytes <= opened - place.offset;
}

}  // namespace tutti::cuda
