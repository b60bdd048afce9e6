// What the two ends of a connection send each other, in the byte order of little-endian processors.
#pragma once

#include <bit>
#include <cstdint>

#include "src/base/status.hpp"
#include "src/collective/fingerprint.hpp"
#include "transport/ncclnet/comms.hpp"
#include "transport/same_setting.hpp"

namespace tutti::ncclnet {

static_assert(std::endian::native == std::endian::little, "wire.hpp is written for little-endian processors");

/// Precedes the payload of a message.
struct Header {
  uint64_t bytes = 0;
  Fingerprint call;
  uint64_t number = 0;  // of the message, from 1 on; 0: a farewell, which ends an irecv that nothing else comes for
  uint64_t apart = 0;   // 1: the payload comes by comms of its own
};
/// What goes with the header.
inline uint64_t bytesBeside(const Header& header) { return header.apart != 0 ? 0 : header.bytes; }
inline constexpr size_t kHeaderBytes = sizeof(Header);
static_assert(kHeaderBytes == 40);

/// What an end tells of itself through the bootstrap's stream.
struct Card {
  static constexpr uint64_t kMagic = 0x324e434354;
  uint64_t magic = kMagic;
  uint64_t slotBytes = 0;
  uint64_t onDevice = 0;  // 1: it takes payloads apart from headers, for memory of its device
  Handle handle{};
};

/// The same of where it takes payloads, when both ends do.
struct PayloadCard {
  Handle handle{};
};

/// Errors: RemoteError: no card; InvalidUsage: the two ends are not set alike, naming the variable.
inline Status checkCard(const Card& mine, const Card& theirs, int peer) {
  if (theirs.magic != Card::kMagic)
    return remoteError(ErrorCode::Malformed, "rank ", peer, " sent no card of an ncclnet connection");
  return checkSameSetting("TUTTI_SLOT_BYTES", mine.slotBytes, theirs.slotBytes, peer);
}

/// What an end that closes says through the stream: what it has sent, and how many irecvs it posts in all.
struct End {
  uint64_t messages = 0;
  uint64_t receives = 0;
};

/// Whether an end may say this that `written` messages were written for: it posts no more irecvs beyond them than there
/// are requests.  How many messages it has sent nobody else knows, as plugins may take them before there are irecvs.
constexpr bool canBe(const End& end, uint64_t written) {
  return end.receives <= written || end.receives - written <= kMostRequests;
}

enum class Incoming : uint8_t { Next, Farewell, Odd };
/// What has come in an irecv of `came` bytes, all messages up to `arrived` before it.  apart: payloads come apart.
inline Incoming judge(const Header& header, size_t came, uint64_t slotBytes, uint64_t arrived, bool apart) {
  if (came < kHeaderBytes || header.bytes > slotBytes || bytesBeside(header) != came - kHeaderBytes)
    return Incoming::Odd;
  if (header.apart != (apart && header.bytes > 0 ? 1 : 0)) return Incoming::Odd;
  if (header.number == 0) return Incoming::Farewell;
  return header.number == arrived + 1 ? Incoming::Next : Incoming::Odd;
}

}  // namespace tutti::ncclnet
