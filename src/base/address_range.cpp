#include "src/base/address_range.hpp"

#include <arpa/inet.h>

#include <string>

#include "src/base/text.hpp"

namespace tutti {

bool AddressRange::holds(const uint8_t (&address)[16]) const {
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<size_t>(bit / 8);
    if (((address[byte] ^ prefix[byte]) & (0x80 >> bit % 8)) != 0) return false;
  }
  return true;
}

Result<AddressRange> parseAddressRange(std::string_view name, std::string_view text) {
  if (text.empty()) return AddressRange();
  const size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  in_addr v4{};
  const bool isV4 = inet_pton(AF_INET, address.c_str(), &v4) == 1;
  const int most = isV4 ? 32 : 128;
  int bits = most;
  AddressRange range;
  const bool right = inet_pton(AF_INET6, (isV4 ? "::ffff:" + address : address).c_str(), range.prefix.data()) == 1 &&
                     (slash == std::string_view::npos || parseNumber(text.substr(slash + 1), &bits)) && bits >= 0 &&
                     bits <= most;
  if (!right)
    return invalidUsage(ErrorCode::VariableValue, name, "='", text,
                        "' is no range of addresses; write one such as 10.0.0.0/8 or fd00::/16");
  range.bits = bits + 128 - most;
  return range;
}

Status checkAddressFamily(std::string_view name, std::string_view text) {
  if (text.empty() || text == "AF_INET" || text == "AF_INET6") return {};
  return invalidUsage(ErrorCode::VariableValue, name, "='", text, "' is neither AF_INET nor AF_INET6");
}

}  // namespace tutti
