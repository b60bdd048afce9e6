#include "src/base/copy.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti {
namespace {

/// The last-level cache; where the system does not say, a large one.
size_t lastLevelBytes() {
  const long known = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return known > 0 ? static_cast<size_t>(known) : size_t{32} << 20;
}

std::atomic<size_t>& threshold() {
  static std::atomic<size_t> bytes{lastLevelBytes()};
  return bytes;
}

#if defined(__x86_64__)

/// Pieces this small cost more to align than they gain.
constexpr size_t kLeastStreamed = 4096;

// Both copy whole blocks of 256 bytes to a 64-byte aligned dst, and return the bytes done.
__attribute__((target("avx512f"))) size_t streamAvx512(std::byte* dst, const std::byte* src, size_t bytes) {
  size_t at = 0;
  for (; at + 256 <= bytes; at += 256) {
    const __m512i a = _mm512_loadu_si512(src + at);
    const __m512i b = _mm512_loadu_si512(src + at + 64);
    const __m512i c = _mm512_loadu_si512(src + at + 128);
    const __m512i d = _mm512_loadu_si512(src + at + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + at), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + at + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + at + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + at + 192), d);
  }
  return at;
}

__attribute__((target("avx2"))) size_t streamAvx2(std::byte* dst, const std::byte* src, size_t bytes) {
  size_t at = 0;
  for (; at + 256 <= bytes; at += 256) {
    __m256i line[8];
    for (int i = 0; i < 8; ++i) line[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + at) + i);
    for (int i = 0; i < 8; ++i) _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + at) + i, line[i]);
  }
  return at;
}

using Streamer = size_t (*)(std::byte*, const std::byte*, size_t);

/// Null where memcpy is all there is.
Streamer streamer() {
  static const Streamer chosen = [] {
    if (__builtin_cpu_supports("avx512f")) return Streamer{streamAvx512};
    if (__builtin_cpu_supports("avx2")) return Streamer{streamAvx2};
    return Streamer{nullptr};
  }();
  return chosen;
}

bool copyStreaming(std::byte* dst, const std::byte* src, size_t bytes) {
  const Streamer stream = streamer();
  if (stream == nullptr || bytes < kLeastStreamed) return false;
  const size_t head = (64 - reinterpret_cast<uintptr_t>(dst) % 64) % 64;
  std::memcpy(dst, src, head);
  const size_t done = head + stream(dst + head, src + head, bytes - head);
  std::memcpy(dst + done, src + done, bytes - done);
  _mm_sfence();  // else a release store that follows could be seen before these stores
  return true;
}

#else
bool copyStreaming(std::byte*, const std::byte*, size_t) { return false; }
#endif

}  // namespace

size_t streamingThreshold() { return threshold().load(std::memory_order_relaxed); }
void setStreamingThreshold(size_t bytes) { threshold().store(bytes, std::memory_order_relaxed); }

bool storesPastCache(size_t touchedBytes) { return touchedBytes >= streamingThreshold(); }

void copyPastCache(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  if (copyStreaming(static_cast<std::byte*>(dst), static_cast<const std::byte*>(src), bytes)) return;
  std::memcpy(dst, src, bytes);
}

void copyPiece(void* dst, const void* src, size_t bytes, size_t touchedBytes) {
  if (storesPastCache(touchedBytes)) return copyPastCache(dst, src, bytes);
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

void copyBytes(void* dst, const void* src, size_t bytes) { copyPiece(dst, src, bytes, 2 * bytes); }

}  // namespace tutti
