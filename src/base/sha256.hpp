// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), so that the library needs no libcrypto for its few proofs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

using Digest = std::array<unsigned char, 32>;

/// One hash; add() as often as there are parts, then finish() once.
class Sha256 {
 public:
  Sha256& add(std::string_view data);
  Digest finish();

 private:
  void block(const unsigned char* data);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_{};
  uint64_t bytes_ = 0;
};

/// Keys of any length; nothing of one stays on the stack.
Digest hmacSha256(std::string_view key, std::string_view data);

/// Takes the same time wherever the two differ.
bool sameDigest(const Digest& a, const Digest& b);

}  // namespace tutti
