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

/// How far ahead of the copy its lines are asked for.
constexpr size_t kAhead = 512;

// Copies whole blocks of 128 bytes, and returns the bytes done.  The last lines asked for lie behind both ends, which a
// prefetch may name.  Not __builtin_prefetch for dst: without flags for a newer processor it only asks for reading.
__attribute__((target("avx2"))) size_t fetchAheadAvx2(std::byte* dst, const std::byte* src, size_t bytes) {
  size_t at = 0;
  for (; at + 128 <= bytes; at += 128) {
    for (const size_t line : {size_t{0}, size_t{64}}) {
      _mm_prefetch(reinterpret_cast<const char*>(src + at + kAhead + line), _MM_HINT_T0);
      asm volatile("prefetchw %0" : : "m"(*reinterpret_cast<const char*>(dst + at + kAhead + line)));
    }
    __m256i half[4];
    for (int i = 0; i < 4; ++i) half[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + at) + i);
    for (int i = 0; i < 4; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + at) + i, half[i]);
  }
  return at;
}

bool copyAhead(std::byte* dst, const std::byte* src, size_t bytes) {
  static const bool can = __builtin_cpu_supports("avx2");
  if (!can || bytes < kLeastLoopBytes) return false;
  const size_t done = fetchAheadAvx2(dst, src, bytes);
  std::memcpy(dst + done, src + done, bytes - done);
  return true;
}

#else
bool copyStreaming(std::byte*, const std::byte*, size_t) { return false; }
bool copyAhead(std::byte*, const std::byte*, size_t) { return false; }
#endif

/// Bit i: CopyLoops[i].
std::atomic<unsigned>& loopBits() {
  static std::atomic<unsigned> bits{0};
  return bits;
}

/// The nearest of kCopyFootprints, in proportion.
size_t classOf(size_t touchedBytes) {
  // A neighbour is nearer from the geometric mean of both on; its square, a * b, needs no root.
  size_t at = 0;
  const double square = static_cast<double>(touchedBytes) * static_cast<double>(touchedBytes);
  while (at + 1 < kCopyFootprints.size() &&
         square > static_cast<double>(kCopyFootprints[at]) * static_cast<double>(kCopyFootprints[at + 1]))
    ++at;
  return at;
}

}  // namespace

size_t streamingThreshold() { return threshold().load(std::memory_order_relaxed); }
void setStreamingThreshold(size_t bytes) { threshold().store(bytes, std::memory_order_relaxed); }

void setCopyLoops(const CopyLoops& loops) {
  unsigned bits = 0;
  for (size_t i = 0; i < loops.size(); ++i) bits |= loops[i] ? 1u << i : 0;
  loopBits().store(bits, std::memory_order_relaxed);
}

CopyLoops copyLoops() {
  const unsigned bits = loopBits().load(std::memory_order_relaxed);
  CopyLoops loops{};
  for (size_t i = 0; i < loops.size(); ++i) loops[i] = (bits >> i & 1) != 0;
  return loops;
}

bool copiesAhead(size_t touchedBytes) {
  const unsigned bits = loopBits().load(std::memory_order_relaxed);
  return bits != 0 && (bits >> classOf(touchedBytes) & 1) != 0;
}

void copyFetchingAhead(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  if (copyAhead(static_cast<std::byte*>(dst), static_cast<const std::byte*>(src), bytes)) return;
  std::memcpy(dst, src, bytes);
}

void copyCached(void* dst, const void* src, size_t bytes, size_t touchedBytes) {
  if (bytes >= kLeastLoopBytes && copiesAhead(touchedBytes)) return copyFetchingAhead(dst, src, bytes);
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

bool storesPastCache(size_t touchedBytes) { return touchedBytes >= streamingThreshold(); }

void copyPastCache(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  if (copyStreaming(static_cast<std::byte*>(dst), static_cast<const std::byte*>(src), bytes)) return;
  std::memcpy(dst, src, bytes);
}

void copyPiece(void* dst, const void* src, size_t bytes, size_t touchedBytes) {
  if (storesPastCache(touchedBytes)) return copyPastCache(dst, src, bytes);
  copyCached(dst, src, bytes, touchedBytes != 0 ? touchedBytes : 2 * bytes);
}

void copyFromSlot(void* dst, const void* src, size_t bytes, size_t touchedBytes) {
  if (storesPastCache(touchedBytes)) return copyPastCache(dst, src, bytes);
  copyCached(dst, src, bytes, 2 * bytes);
}

void copyBytes(void* dst, const void* src, size_t bytes) { copyPiece(dst, src, bytes, 2 * bytes); }

}  // namespace tutti
