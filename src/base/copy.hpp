// Copies of message bytes.  Every bulk copy of the transports goes through storeBytes, so that what wins on a machine
// (stores past the cache for large outputs) is decided in one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti {

/// Copy `bytes` from src to dst, which do not overlap.  Either may be null when bytes is 0.
inline void storeBytes(std::byte* dst, const std::byte* src, size_t bytes) {
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

/// As storeBytes for at most 32 bytes, without a call: two overlapping moves of fixed size.
inline void copySmall(std::byte* dst, const std::byte* src, size_t bytes) {
  const auto twice = [&](auto word) {
    auto last = word;
    std::memcpy(&word, src, sizeof word);
    std::memcpy(&last, src + bytes - sizeof last, sizeof last);
    std::memcpy(dst, &word, sizeof word);
    std::memcpy(dst + bytes - sizeof last, &last, sizeof last);
  };
  struct Word16 {
    uint64_t low, high;
  };
  if (bytes >= 16) return twice(Word16{});
  if (bytes >= 8) return twice(uint64_t{});
  if (bytes >= 4) return twice(uint32_t{});
  for (size_t i = 0; i < bytes; ++i) dst[i] = src[i];
}

}  // namespace tutti
