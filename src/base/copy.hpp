// Copying memory: memcpy, and past the cache where that is faster.
//
// A plain store of a line that is not in the cache first reads it, and what it brings in pushes out what will be needed
// again: an output larger than the L2 cache is written faster by non-temporal stores.  libc does so only far above the
// size at which it begins to pay (3/4 of the shared cache; measured: 1.2 times faster at 4 MiB, twice at 64 MiB).
#pragma once

#include <cstddef>

namespace tutti {

/// memcpy.  Stores past the cache when `bytes` is large enough for that to win on this machine; such stores are ordered
/// before everything that follows the call (a flag may be set right after it).  Any thread.
void copyBytes(void* dst, const void* src, size_t bytes);

/// As copyBytes for a piece of something larger: `wholeBytes` decides how to store.  For executors that move a large
/// message in slots; pass 0 when the piece is read again soon.
void copyPiece(void* dst, const void* src, size_t bytes, size_t wholeBytes);

/// Whether an output of `outputBytes`, made from `inputBytes` of other memory, is better stored past the cache.
bool storesPastCache(size_t outputBytes, size_t inputBytes);

}  // namespace tutti
