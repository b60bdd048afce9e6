#include "transport/tcp/header.hpp"

#include <endian.h>

#include <cstring>
#include <limits>

namespace tutti::tcp {
namespace {

constexpr uint32_t kMagic = 0x31635474;  // "tTc1"

struct Wire {
  uint32_t magic;
  uint16_t spread, row;
  uint64_t bytes, head, count;
};
static_assert(sizeof(Wire) == kHeaderBytes);

}  // namespace

HeaderBytes encodeHeader(const Header& header) {
  const Wire wire{htole32(kMagic),
                  htole16(static_cast<uint16_t>(header.spread)),
                  htole16(header.row ? 1 : 0),
                  htole64(header.bytes),
                  htole64(header.call.head),
                  htole64(header.call.count)};
  HeaderBytes out;
  std::memcpy(out.data(), &wire, sizeof wire);
  return out;
}

Result<Header> decodeHeader(std::span<const std::byte, kHeaderBytes> bytes, uint32_t mostSpread) {
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  const uint32_t spread = le16toh(wire.spread);
  const uint32_t row = le16toh(wire.row);
  if (le32toh(wire.magic) != kMagic || spread < 1 || spread > mostSpread || row > 1) {
    return remoteError("what came is no message of Tutti: ", toHex(bytes.data(), bytes.size()));
  }
  const uint64_t payload = le64toh(wire.bytes);
  if (payload > std::numeric_limits<size_t>::max() / 2) return remoteError("a message announces ", payload, " bytes");
  return Header{static_cast<size_t>(payload), {le64toh(wire.head), le64toh(wire.count)}, spread, row == 1};
}

}  // namespace tutti::tcp
