#include "transport/tcp/header.hpp"

#include <endian.h>

#include <cstring>

#include "src/base/assert.hpp"
#include "transport/tcp/pieces.hpp"

namespace tutti::tcp {
namespace {

constexpr uint32_t kMagic = 0x32635474;  // "tTc2"

struct Wire {
  uint32_t magic;
  uint8_t spread, row;
  uint16_t number;
  uint32_t bytes, piece;
  uint64_t head, count;
};
static_assert(sizeof(Wire) == kHeaderBytes);

}  // namespace

HeaderBytes encodeHeader(const Header& header) {
  TUTTI_ASSERT_CMP(header.bytes, <=, UINT32_MAX);
  const Wire wire{htole32(kMagic),
                  static_cast<uint8_t>(header.spread),
                  static_cast<uint8_t>(header.row ? 1 : 0),
                  htole16(header.number),
                  htole32(static_cast<uint32_t>(header.bytes)),
                  htole32(header.piece),
                  htole64(header.call.head),
                  htole64(header.call.count)};
  HeaderBytes out;
  std::memcpy(out.data(), &wire, sizeof wire);
  return out;
}

Result<Header> decodeHeader(std::span<const std::byte, kHeaderBytes> bytes, uint32_t mostSpread) {
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  const uint32_t payload = le32toh(wire.bytes), piece = le32toh(wire.piece);
  const bool spreads = wire.spread >= 1 && wire.spread <= mostSpread;
  if (le32toh(wire.magic) != kMagic || !spreads || wire.row > 1 || piece >= Pieces(payload, wire.spread).count) {
    return remoteError("what came is no message of Tutti: ", toHex(bytes.data(), bytes.size()));
  }
  return Header{payload, {le64toh(wire.head), le64toh(wire.count)}, wire.spread, wire.row == 1, le16toh(wire.number),
                piece};
}

}  // namespace tutti::tcp
