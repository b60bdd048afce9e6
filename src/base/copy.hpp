// Copying memory: memcpy, a loop that fetches ahead where that is faster, and past the cache where that is faster
// still.
//
// The system's memcpy of long copies may be `rep movsb`, which knows nothing of where the lines are.  On a Skylake Xeon
// a loop that asks for the lines of both sides ahead was faster in the second cache and beyond the third, and slower
// between the two.  The loop therefore is a setting by the amount of memory, which calibration measures.
//
// A plain store of a line that is not in the cache first reads it, and what it brings in pushes out what will be needed
// again, so a large output can be written faster by non-temporal stores.  From which size on, and whether at all,
// differs between machines: measured on one core, non-temporal copies were 1.2 times faster at 4 MiB and 2.1 times at
// 64 MiB on an Emerald Rapids Xeon, and never faster on a Cascade Lake one.  So the size is a setting, which
// calibration measures (src/plan); until then it is the size of the last-level cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti {

/// memcpy.  Stores past the cache when `bytes` is large enough for that to win on this machine; such stores are ordered
/// before everything that follows the call (a flag may be set right after it).  Any thread.
void copyBytes(void* dst, const void* src, size_t bytes);

/// As copyBytes for a piece of something larger: `touchedBytes` decides how to store, all that is read and written
/// meanwhile by those who share the cache.  For executors that move a large message in slots; pass 0 when the piece is
/// read again soon.
void copyPiece(void* dst, const void* src, size_t bytes, size_t touchedBytes);

/// copyPiece() of what another core has just written into a slot: however large the message, the loop sees the slot.
void copyFromSlot(void* dst, const void* src, size_t bytes, size_t touchedBytes);

/// memcpy that stores past the cache whatever the size; for measuring when that pays.
void copyPastCache(void* dst, const void* src, size_t bytes);

/// Shorter copies always go by memcpy.
inline constexpr size_t kLeastLoopBytes = 4096;
/// Amounts of memory, inputs and outputs together, at which calibration compares memcpy with the loop.
inline constexpr std::array<size_t, 3> kCopyFootprints = {128 << 10, 1 << 20, 8 << 20};
/// By the nearest of those: whether copies go by the loop.
using CopyLoops = std::array<bool, kCopyFootprints.size()>;
/// A property of the machine, as the streaming threshold is; until it is set, memcpy.  Any thread.
void setCopyLoops(const CopyLoops& loops);
CopyLoops copyLoops();
/// Whether copies of which so much is touched go by the loop.
bool copiesAhead(size_t touchedBytes);

/// Through the cache, by memcpy or by the loop, as the machine's setting for `touchedBytes` says.
void copyCached(void* dst, const void* src, size_t bytes, size_t touchedBytes);
/// By the loop, whatever the setting; for measuring when that pays.
void copyFetchingAhead(void* dst, const void* src, size_t bytes);

/// Whether an output is better stored past the cache, when so many bytes are touched with it (copyPiece).
bool storesPastCache(size_t touchedBytes);

/// Bytes touched (outputs and inputs of all who share the cache) from which stores pass it; SIZE_MAX: never.  A
/// property of the machine, so one per process: what a calibration of this machine says is right for every
/// communicator.  Any thread.
size_t streamingThreshold();
void setStreamingThreshold(size_t bytes);

/// Copy into or out of a slot that the other side uses soon: always through the cache.  Either pointer may be null when
/// bytes is 0.
inline void storeBytes(std::byte* dst, const std::byte* src, size_t bytes) {
  if (bytes >= kLeastLoopBytes) return copyCached(dst, src, bytes, 2 * bytes);
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

/// As storeBytes, without a call for up to 32 bytes: two overlapping moves of fixed size.
inline void copySmall(std::byte* dst, const std::byte* src, size_t bytes) {
  if (bytes > 32) [[unlikely]] {
    std::memcpy(dst, src, bytes);
    return;
  }
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
