#include "transport/tcp/header.hpp"

#include <endian.h>

#include <cstring>

#include "src/base/assert.hpp"
#include "transport/tcp/pieces.hpp"

namespace tutti::tcp {
namespace {

constexpr uint32_t kMagic = 0x33635474;  // "tTc3"
constexpr uint8_t kRow = 1, kPaths = 2;

struct Wire {
  uint32_t magic;
  uint8_t spread, bits;
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
                  static_cast<uint8_t>((header.row ? kRow : 0) | (header.paths ? kPaths : 0)),
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
  const bool paths = (wire.bits & kPaths) != 0, known = (wire.bits & ~(kRow | kPaths)) == 0;
  if (le32toh(wire.magic) != kMagic || !spreads || !known || piece >= Pieces(payload, wire.spread, paths).count) {
    return remoteError(ErrorCode::Malformed, "what came is no message of Tutti: ", toHex(bytes.data(), bytes.size()));
  }
  return Header{payload,
                {le64toh(wire.head), le64toh(wire.count)},
                wire.spread,
                (wire.bits & kRow) != 0,
                le16toh(wire.number),
                piece,
                paths};
}

}  // namespace tutti::tcp
