// What precedes the payload of every message on a tcp endpoint: 32 bytes, little endian.
//
//   0  magic 4 | spread 2: sockets that a large message of this sender is spread over (stripes.hpp) | row 2: 0 or 1
//   8  payload bytes 8
//   16 fingerprint: head 8, count 8
#pragma once

#include <array>
#include <cstddef>
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
  bool operator==(const Header&) const = default;
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encodeHeader(const Header& header);

/// Errors: RemoteError: these bytes are no header (the stream is out of step, or the peer is not Tutti), or its spread
/// is not in 1..mostSpread, or its row is not 0 or 1.  The size is
/// not judged here: a receiver compares it with what it expects before it reads a byte.
Result<Header> decodeHeader(std::span<const std::byte, kHeaderBytes> bytes, uint32_t mostSpread);

}  // namespace tutti::tcp
