// Memory for large allocations that other processes can map: arenas, each a memfd, at addresses reserved for them.
//
// All state is static and usable before any constructor has run.  Any thread may call.  fork() makes all arenas private
// to parent and child, with no copy and no word lost: their pages are mapped privately from the same memfd, into which
// nobody writes any more.  Allocations that exist then are no longer found by peers; new ones come from new arenas.
#pragma once

#include <cstddef>

#include "src/malloc/interface.h"

namespace tutti::arenas {

/// Page-aligned memory of at least `bytes`, aligned to `alignment` (a power of two).  *zeroed: it is.  Null: there is
/// none (or this thread forks), and the C library has to give it.
void* take(size_t bytes, size_t alignment, bool* zeroed);
/// Whether take() gave it.
bool owns(const void* memory);
/// What take() gave.  Ends the process with a word if it did not, or if it is free already.
void give(void* memory);
/// Bytes of what take() gave.
size_t bytesOf(void* memory);
/// Where it lies, with another size; false: it would have to be moved.
bool resize(void* memory, size_t bytes);

}  // namespace tutti::arenas
