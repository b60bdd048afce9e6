// A range of IP addresses as a text: "10.0.0.0/8", "fd00::/16".
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "src/base/status.hpp"

namespace tutti {

/// A value.  IPv4 stands as IPv6 does for it, ::ffff:a.b.c.d.
struct AddressRange {
  std::array<uint8_t, 16> prefix{};
  int bits = 0;  // of the prefix that count; 0: every address

  bool holds(const uint8_t (&address)[16]) const;
};

/// An address of either family, and after "/" how many of its bits count; without: all.  "": every address.
/// Errors: InvalidUsage, beginning with `name` and the text.
Result<AddressRange> parseAddressRange(std::string_view name, std::string_view text);

/// "", "AF_INET" or "AF_INET6".  Errors: as above.
Status checkAddressFamily(std::string_view name, std::string_view text);

}  // namespace tutti
