#include "src/malloc/arenas.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "src/malloc/settings.hpp"
#include "src/malloc/spans.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3: include/uapi/linux/memfd.h
#endif

namespace tutti::arenas {
namespace {

using spans::kPageBytes;
using spans::Spans;
using spans::State;

/// Arenas begin at multiples of this; few need more than one of them.
constexpr size_t kSlotBytes = size_t{1} << 30;
constexpr size_t kMostSlots = 1024;

struct Arena {
  std::byte* base;
  size_t bytes;
  int fd;
  tuttiMallocId id;
  std::atomic<bool> shared;  // with others; false once a fork has made it private
  spans::PageInfo* info;
  Spans spans;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards what is not atomic
std::atomic<std::byte*> reserved{nullptr};          // the addresses of all arenas
std::atomic<size_t> slots{0};                       // of them
size_t usedSlots = 0;                               // none behind has ever been used
Arena arenas[kMostSlots];                           // by their first slot
std::atomic<Arena*> arenaOf[kMostSlots];            // by slot; null: free
bool tried = false;                                 // to reserve addresses
std::atomic<pthread_t> forking{0};                  // the thread that is in fork(), with the mutex

bool forks() { return forking.load(std::memory_order_relaxed) == pthread_self(); }

class Lock {
 public:
  Lock() {
    if (!forks()) pthread_mutex_lock(&mutex);
  }
  ~Lock() {
    if (!forks()) pthread_mutex_unlock(&mutex);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

[[noreturn]] void die(const char* why) {
  if (write(STDERR_FILENO, why, std::strlen(why)) < 0) abort();
  abort();
}

Arena* find(const void* memory) {
  std::byte* const first = reserved.load(std::memory_order_acquire);
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(memory) - first);
  if (first == nullptr || memory < first || offset / kSlotBytes >= slots.load(std::memory_order_relaxed))
    return nullptr;
  return arenaOf[offset / kSlotBytes].load(std::memory_order_acquire);
}

uint32_t pageOf(const Arena& a, const void* memory) {
  return static_cast<uint32_t>(static_cast<size_t>(static_cast<const std::byte*>(memory) - a.base) / kPageBytes);
}

// ---- fork()

void beforeFork();
void afterForkInParent() {
  forking.store(0, std::memory_order_relaxed);
  pthread_mutex_unlock(&mutex);
}
void afterForkInChild();

// The first to register is the last to be called, when other handlers have allocated what they need.
__attribute__((constructor)) void registerForFork() {
  static std::atomic<bool> registered{false};
  if (!registered.exchange(true)) pthread_atfork(beforeFork, afterForkInParent, afterForkInChild);
}

// ---- Arenas

void reserve() {
  if (tried) return;
  tried = true;
  registerForFork();
  if (sysconf(_SC_PAGESIZE) != kPageBytes) return;
  for (size_t n = kMostSlots; n > 0; n /= 4) {
    void* at = mmap(nullptr, (n + 1) * kSlotBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) continue;
    const auto address = reinterpret_cast<uintptr_t>(at);
    slots.store(n, std::memory_order_relaxed);
    reserved.store(reinterpret_cast<std::byte*>((address + kSlotBytes - 1) / kSlotBytes * kSlotBytes),
                   std::memory_order_release);
    return;
  }
}

int newMemfd(size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes) return -1;  // a signal would end the process
  int fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (fchmod(fd, 0600) == 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0 && fcntl(fd, F_ADD_SEALS, kSeals) == 0)
    return fd;
  close(fd);
  return -1;
}

/// The first of `n` free slots in a row; kMostSlots: there is none.
size_t freeSlots(size_t n) {
  const size_t all = slots.load(std::memory_order_relaxed);
  size_t row = 0;
  for (size_t i = 0; i < all; ++i) {
    row = arenaOf[i].load(std::memory_order_relaxed) == nullptr ? row + 1 : 0;
    if (row == n) return i + 1 - n;
  }
  return kMostSlots;
}

bool map(Arena& a) {
  if (getrandom(&a.id, sizeof a.id, GRND_NONBLOCK) != sizeof a.id) return false;
  a.fd = newMemfd(a.bytes);
  if (a.fd < 0) return false;
  const size_t infoBytes = a.bytes / kPageBytes * sizeof(spans::PageInfo);
  void* info = mmap(nullptr, infoBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (info != MAP_FAILED &&
      mmap(a.base, a.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a.fd, 0) != MAP_FAILED) {
    a.info = static_cast<spans::PageInfo*>(info);
    return true;
  }
  if (info != MAP_FAILED) munmap(info, infoBytes);
  close(a.fd);
  return false;
}

Arena* newArena(size_t bytes) {
  reserve();
  const size_t n = (bytes + kSlotBytes - 1) / kSlotBytes, first = freeSlots(n);
  if (first == kMostSlots) return nullptr;
  Arena& a = arenas[first];
  a.base = reserved.load(std::memory_order_relaxed) + first * kSlotBytes;
  a.bytes = n * kSlotBytes;
  if (!map(a)) return nullptr;
  madvise(a.base, a.bytes, MADV_DONTFORK);  // of children that are made past the C library
  if (settings().huge) madvise(a.base, a.bytes, MADV_HUGEPAGE);
  a.spans.begin(a.info, static_cast<uint32_t>(a.bytes / kPageBytes));
  a.shared.store(true, std::memory_order_relaxed);
  for (size_t i = first; i < first + n; ++i) arenaOf[i].store(&a, std::memory_order_release);
  usedSlots = std::max(usedSlots, first + n);
  return &a;
}

template <class Visit>
void eachArena(Visit visit) {
  for (size_t i = 0; i < usedSlots; ++i) {
    Arena* a = arenaOf[i].load(std::memory_order_relaxed);
    if (a == &arenas[i]) visit(*a);
  }
}

// ---- Pages that are kept

void clean(Arena& a, uint32_t at) {
  const auto offset = static_cast<off_t>(at * kPageBytes), bytes = static_cast<off_t>(a.spans.pagesAt(at) * kPageBytes);
  // Where the system cannot, and cannot zero either, the pages would have to stay.
  if (fallocate(a.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) != 0)
    std::memset(a.base + offset, 0, static_cast<size_t>(bytes));
  a.spans.clean(at);
}

void cleanAll(Arena& a) {
  while (a.spans.oldestKept() != Spans::kNone) clean(a, a.spans.oldestKept());
}

/// What others have of it, a mapping or a descriptor, keeps no pages; children of a fork may have it, and keep them.
void release(Arena& a) {
  if (a.shared.load(std::memory_order_relaxed)) cleanAll(a);
  const auto first = static_cast<size_t>(&a - arenas);
  for (size_t i = first; i < first + a.bytes / kSlotBytes; ++i) arenaOf[i].store(nullptr, std::memory_order_relaxed);
  mmap(a.base, a.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  munmap(a.info, a.bytes / kPageBytes * sizeof(spans::PageInfo));
  close(a.fd);
}

size_t keptBytes() {
  size_t pages = 0;
  eachArena([&](const Arena& a) {
    if (a.shared.load(std::memory_order_relaxed)) pages += a.spans.keptPages();
  });
  return pages * kPageBytes;
}

/// The oldest go first, of each arena in turn.
void keepLess() {
  if (keptBytes() <= settings().keepBytes) return;
  eachArena([](Arena& a) {
    while (a.shared.load(std::memory_order_relaxed) && a.spans.oldestKept() != Spans::kNone &&
           keptBytes() > settings().keepBytes)
      clean(a, a.spans.oldestKept());
  });
}

/// An arena without allocations goes, unless it is the only one for the next.
void dropIfEmpty(Arena& a) {
  if (!a.spans.empty()) return;
  bool another = a.bytes > kSlotBytes;
  eachArena([&](const Arena& b) { another = another || (&b != &a && b.shared.load(std::memory_order_relaxed)); });
  if (another || !a.shared.load(std::memory_order_relaxed)) release(a);
}

void beforeFork() {
  pthread_mutex_lock(&mutex);
  forking.store(pthread_self(), std::memory_order_relaxed);
  eachArena([](Arena& a) {
    if (!a.shared.load(std::memory_order_relaxed)) return;
    if (a.spans.empty()) return release(a);
    cleanAll(a);
    // If the system refuses, the child does not have the memory; the parent goes on as before.
    if (mmap(a.base, a.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, a.fd, 0) != MAP_FAILED)
      a.shared.store(false, std::memory_order_release);
  });
}

void afterForkInChild() {
  eachArena([](Arena& a) { a.shared.store(false, std::memory_order_release); });  // what the system refused above
  afterForkInParent();
}

// ---- Taking

void* takeFrom(Arena& a, uint32_t pages, uint32_t alignment, State from) {
  if (!a.shared.load(std::memory_order_relaxed)) return nullptr;
  const uint32_t at = a.spans.take(pages, alignment, from);
  return at == Spans::kNone ? nullptr : a.base + at * kPageBytes;
}

void* takeFromAny(uint32_t pages, uint32_t alignment, State from) {
  void* memory = nullptr;
  eachArena([&](Arena& a) {
    if (memory == nullptr) memory = takeFrom(a, pages, alignment, from);
  });
  return memory;
}

Arena& checked(void* memory) {
  Arena* a = find(memory);
  const bool begins = a != nullptr && static_cast<size_t>(static_cast<std::byte*>(memory) - a->base) % kPageBytes == 0;
  if (!begins || a->spans.usedAt(pageOf(*a, memory)) == 0) die("libtutti_malloc: free(): invalid pointer\n");
  return *a;
}

}  // namespace

void* take(size_t bytes, size_t alignment, bool* zeroed) {
  if (forks() || alignment > kSlotBytes || bytes > (kMostSlots / 2) * kSlotBytes) return nullptr;
  const auto pages = static_cast<uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
  const auto aligned = static_cast<uint32_t>(std::max(alignment, kPageBytes) / kPageBytes);
  const Lock lock;
  *zeroed = false;
  if (void* kept = takeFromAny(pages, aligned, State::Kept)) return kept;
  *zeroed = true;
  if (void* fresh = takeFromAny(pages, aligned, State::Clean)) return fresh;
  Arena* a = newArena(pages * kPageBytes);
  return a == nullptr ? nullptr : takeFrom(*a, pages, aligned, State::Clean);
}

bool owns(const void* memory) { return find(memory) != nullptr; }

void give(void* memory) {
  const Lock lock;
  Arena& a = checked(memory);
  const uint32_t at = pageOf(a, memory);
  if (a.shared.load(std::memory_order_relaxed)) {
    a.spans.give(at);
    keepLess();
  } else {
    madvise(memory, a.spans.usedAt(at) * kPageBytes, MADV_DONTNEED);  // copies that were made since the fork
    a.spans.give(at);
  }
  dropIfEmpty(a);
}

size_t bytesOf(void* memory) {
  const Lock lock;
  const Arena& a = checked(memory);
  return a.spans.usedAt(pageOf(a, memory)) * kPageBytes;
}

bool resize(void* memory, size_t bytes) {
  if (bytes > (kMostSlots / 2) * kSlotBytes) return false;
  const auto pages = static_cast<uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
  const Lock lock;
  Arena& a = checked(memory);
  if (!a.shared.load(std::memory_order_relaxed)) return pages == a.spans.usedAt(pageOf(a, memory));
  if (!a.spans.resize(pageOf(a, memory), pages)) return false;
  keepLess();
  return true;
}

}  // namespace tutti::arenas

using tutti::arenas::Arena;

extern "C" {

int tuttiMallocFind(const void* ptr, size_t bytes, tuttiMallocPlace* place) {
  const Arena* a = tutti::arenas::find(ptr);
  if (a == nullptr || !a->shared.load(std::memory_order_acquire)) return 0;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(ptr) - a->base);
  if (offset > a->bytes || bytes > a->bytes - offset) return 0;
  *place = {a->id, offset, a->bytes};
  return 1;
}

int tuttiMallocShare(tuttiMallocId id) {
  const tutti::arenas::Lock lock;
  int fd = -1;
  tutti::arenas::eachArena([&](const Arena& a) {
    if (a.id.high == id.high && a.id.low == id.low) fd = a.fd;
  });
  if (fd < 0) return errno = EBADF, -1;
  return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int tuttiMallocAlive(tuttiMallocId id) {
  const tutti::arenas::Lock lock;
  bool alive = false;
  tutti::arenas::eachArena([&](const Arena& a) { alive = alive || (a.id.high == id.high && a.id.low == id.low); });
  return alive;
}

}  // extern "C"
