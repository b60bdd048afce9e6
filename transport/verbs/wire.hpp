// What the two ends of a connection write to each other, in the byte order of little-endian processors.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "transport/verbs/device.hpp"

namespace tutti::verbs {

static_assert(std::endian::native == std::endian::little, "wire.hpp is written for little-endian processors");

/// Precedes the payload of a message in its slot.  The last field shows that the slot has been written.
struct Header {
  uint64_t bytes = 0;
  Fingerprint call;
  uint64_t address = 0;   // where the receiver reads the payload; 0: it follows
  uint32_t key = 0;       // of that memory
  uint32_t released = 0;  // messages that this end is done with, the low bits
  uint32_t unused = 0;
  uint32_t number = 0;  // of the message, from 1 on, the low bits
};
inline constexpr size_t kHeaderBytes = sizeof(Header);
static_assert(kHeaderBytes == 48);

/// The 32 bits beside a write: the low bits of a counter, and whether a message has come with them.
inline constexpr uint32_t kMessageCame = uint32_t{1} << 31;
inline constexpr uint32_t kCounterBits = kMessageCame - 1;
/// The counter whose low bits are these, at most `ahead` after `known`; nothing: there is none.
inline std::optional<uint64_t> widen(uint32_t low, uint64_t known, uint64_t ahead) {
  const uint64_t step = (low - known) & kCounterBits;
  return step <= ahead ? std::optional(known + step) : std::nullopt;
}

/// What an end tells of itself through the bootstrap's stream when its queue pair is there.
struct ConnectionCard {
  static constexpr uint32_t kMagic = 0x31425256;
  uint32_t magic = kMagic;
  uint32_t queuePair = 0;
  uint32_t packetNumber = 0;
  uint32_t slots = 0;
  uint64_t slotBytes = 0;
  uint64_t memory = 0;  // where its slots begin
  uint32_t memoryKey = 0;
  uint16_t localId = 0;  // LID
  uint8_t mtu = 0;
  uint8_t ethernet = 0;
  uint32_t readsServed = 0;  // RDMA reads of the other end that it serves at a time
  ibv_gid gid{};
  uint32_t unused = 0;
};
static_assert(sizeof(ConnectionCard) == 72);

/// Errors: RemoteError: no card; InvalidUsage: the two ends are not set alike, naming the variable.
inline Status checkCard(const ConnectionCard& mine, const ConnectionCard& theirs, int peer) {
  if (theirs.magic != ConnectionCard::kMagic) return remoteError("rank ", peer, " sent no card of a verbs connection");
  const auto differ = [&](const char* what, auto here, auto there) {
    return invalidUsage(what, " is ", here, " here and ", there, " on rank ", peer,
                        "; it must be the same on all ranks");
  };
  if (mine.slots != theirs.slots) return differ("TUTTI_SLOTS", mine.slots, theirs.slots);
  if (mine.slotBytes != theirs.slotBytes) return differ("TUTTI_SLOT_BYTES", mine.slotBytes, theirs.slotBytes);
  if (mine.ethernet == theirs.ethernet) return {};
  return invalidUsage("one of this rank's and rank ", peer,
                      "'s adapters is of InfiniBand, the other of RoCE; TUTTI_IB_HCA chooses others");
}

}  // namespace tutti::verbs
