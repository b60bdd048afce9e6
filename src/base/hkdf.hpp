// Keys from keys: HKDF with SHA-256 (RFC 5869).
#pragma once

#include <span>
#include <string_view>

#include "src/base/secret.hpp"

namespace tutti {

/// Fills `out`, of at most 255 * 32 bytes.
void hkdfSha256(std::string_view key, std::string_view salt, std::string_view info, std::span<unsigned char> out);
/// One key.
Secret hkdfSha256(const Secret& key, std::string_view salt, std::string_view info);

}  // namespace tutti
