// What precedes every piece of a message (pieces.hpp) on a tcp endpoint: 32 bytes, little endian.
//
//   0  magic 4 | spread 1: sockets that a large message of this sender is spread over | 1: row 1 + paths 2
//   6  number 2: of the message on this endpoint, modulo 65536
//   8  message bytes 4 | piece 4
//   16 fingerprint: head 8, count 8
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/status.hpp"
#include "src/collective/fingerprint.hpp"

namespace tutti::tcp {

inline constexpr size_t kHeaderBytes = 32;

struct Header {
  size_t bytes = 0;
  Fingerprint call;
  uint32_t spread = 1;
  /// The sender's kernel may hold back what follows until this is acknowledged (row.hpp).
  bool row = false;
  uint16_t number = 0;
  uint32_t piece = 0;
  /// The message is cut for sockets that go by several interfaces.
  bool paths = false;
  bool operator==(const Header&) const = default;
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encodeHeader(const Header& header);

/// Errors: RemoteError: these bytes are no header (the stream is out of step, or the peer is not Tutti), or its spread
/// is not in 1..mostSpread, it has unknown bits, or the message has no such piece.  The size is
/// not judged here: a receiver compares it with what it expects before it reads a byte.
Result<Header> decodeHeader(std::span<const std::byte, kHeaderBytes> bytes, uint32_t mostSpread);

}  // namespace tutti::tcp
