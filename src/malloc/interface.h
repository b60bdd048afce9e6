/* What libtutti_malloc.so tells libtutti.so of its memory: weak symbols, null where it is not preloaded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Names one arena, a memfd of many allocations: random, never used twice. */
typedef struct {
  uint64_t high, low;
} tuttiMallocId;

/** Where [ptr, ptr + bytes) lies: in arena `id`, of `arenaBytes`, at `offset`. */
typedef struct {
  tuttiMallocId id;
  size_t offset, arenaBytes;
} tuttiMallocPlace;

/** Whether all of [ptr, ptr + bytes) lies in one arena that others may map; fills *place then.  Any thread; no lock. */
__attribute__((weak, visibility("default"))) int tuttiMallocFind(const void* ptr, size_t bytes,
                                                                 tuttiMallocPlace* place);
/** A descriptor of the arena's memfd, the caller's to close; -1 and errno if there is none (EBADF: the arena is gone).
 */
__attribute__((weak, visibility("default"))) int tuttiMallocShare(tuttiMallocId id);
/** Whether the arena exists. */
__attribute__((weak, visibility("default"))) int tuttiMallocAlive(tuttiMallocId id);

#ifdef __cplusplus
}
#endif
