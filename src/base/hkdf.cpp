#include "src/base/hkdf.hpp"

#include <algorithm>
#include <string>

#include "src/base/assert.hpp"
#include "src/base/sha256.hpp"

namespace tutti {
namespace {

std::string_view textOf(const Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

}  // namespace

void hkdfSha256(std::string_view key, std::string_view salt, std::string_view info, std::span<unsigned char> out) {
  Digest extracted = hmacSha256(salt, key);
  Digest block{};
  TUTTI_ASSERT_CMP(out.size(), <=, 255 * block.size());
  std::string data;
  for (size_t at = 0, n = 1; at < out.size(); at += block.size(), ++n) {
    data.assign(n == 1 ? std::string_view() : textOf(block));
    data.append(info).push_back(static_cast<char>(n));
    block = hmacSha256(textOf(extracted), data);
    std::copy_n(block.begin(), std::min(block.size(), out.size() - at), out.begin() + static_cast<std::ptrdiff_t>(at));
  }
  wipe(extracted);
  wipe(block);
  wipe(data);
}

Secret hkdfSha256(const Secret& key, std::string_view salt, std::string_view info) {
  Secret::Raw raw{};
  hkdfSha256(key.view(), salt, info, raw);
  const Secret derived(raw);
  wipe(raw);
  return derived;
}

}  // namespace tutti
