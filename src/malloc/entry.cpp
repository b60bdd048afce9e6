// The C library's allocation functions, for LD_PRELOAD: large allocations come from memory that peers of Tutti map, the
// others from the C library's own allocator, under the names by which it exports it beside the usual ones.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "src/malloc/arenas.hpp"
#include "src/malloc/settings.hpp"

extern "C" {
void* __libc_malloc(size_t bytes);
void __libc_free(void* memory);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

using namespace tutti::arenas;

#define TUTTI_EXPORT __attribute__((visibility("default")))

bool isLarge(size_t bytes) { return bytes >= 4096 && bytes >= settings().leastBytes; }

size_t pagesOf(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

void* taken(size_t bytes, size_t alignment) {
  bool zeroed = false;
  return isLarge(bytes) ? take(bytes, alignment, &zeroed) : nullptr;
}

void* aligned(size_t alignment, size_t bytes) {
  void* memory = taken(bytes, alignment);
  return memory != nullptr ? memory : __libc_memalign(alignment, bytes);
}

bool isPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

using UsableSize = size_t (*)(void*);

/// The C library's malloc_usable_size, which has no other name; null: there is none.
UsableSize ofLibrary() {
  static std::atomic<UsableSize> found{nullptr};
  UsableSize size = found.load(std::memory_order_acquire);
  if (size == nullptr) {
    size = reinterpret_cast<UsableSize>(dlsym(RTLD_NEXT, "malloc_usable_size"));
    found.store(size, std::memory_order_release);
  }
  return size;
}

/// A large one in the place of the C library's; null: let that do it.
void* moved(void* memory, size_t bytes) {
  const UsableSize size = isLarge(bytes) ? ofLibrary() : nullptr;
  void* large = size == nullptr ? nullptr : taken(bytes, 1);
  if (large == nullptr) return nullptr;
  std::memcpy(large, memory, std::min(bytes, size(memory)));
  __libc_free(memory);
  return large;
}

}  // namespace

extern "C" {

TUTTI_EXPORT void* malloc(size_t bytes) {
  void* memory = taken(bytes, 1);
  return memory != nullptr ? memory : __libc_malloc(bytes);
}

TUTTI_EXPORT void free(void* memory) {
  if (!owns(memory)) return __libc_free(memory);
  const int before = errno;
  give(memory);
  errno = before;
}

TUTTI_EXPORT void* calloc(size_t count, size_t bytes) {
  size_t all = 0;
  bool zeroed = false;
  void* memory = nullptr;
  if (!__builtin_mul_overflow(count, bytes, &all) && isLarge(all)) memory = take(all, 1, &zeroed);
  if (memory == nullptr) return __libc_calloc(count, bytes);
  return zeroed ? memory : std::memset(memory, 0, all);
}

TUTTI_EXPORT void* realloc(void* memory, size_t bytes) {
  if (memory == nullptr) return malloc(bytes);
  if (!owns(memory)) {
    void* large = moved(memory, bytes);
    return large != nullptr ? large : __libc_realloc(memory, bytes);
  }
  if (bytes == 0) {
    free(memory);
    return nullptr;
  }
  if (isLarge(bytes) && resize(memory, bytes)) return memory;
  void* other = malloc(bytes);
  if (other == nullptr) return nullptr;
  std::memcpy(other, memory, std::min(bytes, bytesOf(memory)));
  free(memory);
  return other;
}

TUTTI_EXPORT int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (!isPowerOfTwo(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int before = errno;
  void* made = aligned(alignment, bytes);
  errno = before;
  if (made == nullptr) return ENOMEM;
  *memory = made;
  return 0;
}

TUTTI_EXPORT void* memalign(size_t alignment, size_t bytes) {
  return isPowerOfTwo(alignment) ? aligned(alignment, bytes) : __libc_memalign(alignment, bytes);
}

TUTTI_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  if (isPowerOfTwo(alignment)) return aligned(alignment, bytes);
  errno = EINVAL;
  return nullptr;
}

TUTTI_EXPORT void* valloc(size_t bytes) { return aligned(4096, bytes); }
TUTTI_EXPORT void* pvalloc(size_t bytes) { return aligned(4096, bytes > SIZE_MAX - 4095 ? bytes : pagesOf(bytes)); }

TUTTI_EXPORT size_t malloc_usable_size(void* memory) {
  if (memory == nullptr) return 0;
  if (owns(memory)) return bytesOf(memory);
  const UsableSize size = ofLibrary();
  return size == nullptr ? 0 : size(memory);
}

TUTTI_EXPORT void free_sized(void* memory, size_t) { free(memory); }
TUTTI_EXPORT void free_aligned_sized(void* memory, size_t, size_t) { free(memory); }

}  // extern "C"
