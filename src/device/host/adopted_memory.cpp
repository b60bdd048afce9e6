#include "src/device/host/adopted_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "src/base/assert.hpp"
#include "src/base/caught.hpp"
#include "src/device/host/memory_map.hpp"
#include "src/device/host/page_traits.hpp"

namespace tutti {
namespace {

/// What is copied at a time when memory is given back, so that it takes twice the memory for no more than this.
constexpr size_t kBackBytes = size_t{64} << 20;

struct Adoptions {
  ProcessMutex mutex;                         // one at a time; fork() waits for it.  Taken before the table's
  std::map<AllocationId, PageTraits> traits;  // under mutex

  Adoptions() { beforeFork(makePrivate); }
  static Adoptions& instance() {
    static Adoptions& adoptions = *new Adoptions;
    return adoptions;
  }
  static void makePrivate();
};

size_t pageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

Pages wholePages(std::byte* data, size_t bytes) {
  const size_t page = pageBytes(), before = reinterpret_cast<uintptr_t>(data) % page;
  const size_t head = before == 0 ? 0 : page - before;
  if (bytes < head + page) return {};
  return {data + head, data + head + (bytes - head) / page * page};
}

size_t leadOf(const Allocation& a) { return a.lead + static_cast<size_t>(a.adopted.pages.begin - a.begin); }

/// Makes the pages the process's alone.  What is written meanwhile is not lost: it is in the file, or in a copy.
bool mapPrivately(const Allocation& a, const Pages& pages) {
  const size_t offset = leadOf(a) + static_cast<size_t>(pages.begin - a.adopted.pages.begin);
  return mmap(pages.begin, pages.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, a.fd.get(),
              static_cast<off_t>(offset)) != MAP_FAILED;
}

// ---- Where the memfd is still mapped

/// The parts of the adopted pages that still are where they were: a program may have unmapped or moved some.
std::vector<Pages> partsInPlace(const Allocation& a) {
  std::vector<Pages> parts;
  struct stat info {};
  const Pages& all = a.adopted.pages;
  const auto begin = reinterpret_cast<uintptr_t>(all.begin), end = reinterpret_cast<uintptr_t>(all.end);
  const Result<std::vector<MappedRange>> ranges = mappedRanges(begin, end, false);
  if (!ranges.ok() || fstat(a.fd.get(), &info) != 0) return parts;
  for (const MappedRange& range : *ranges) {
    if (range.inode != info.st_ino || range.name.find("memfd:tutti") == std::string::npos) continue;
    if (range.offset - leadOf(a) != range.begin - begin) continue;
    const uintptr_t from = std::max(begin, range.begin), to = std::min(end, range.end);
    parts.push_back({all.begin + (from - begin), all.begin + (to - begin)});
  }
  return parts;
}

bool allInPlace(const Allocation& a) {
  size_t bytes = 0;
  for (const Pages& part : partsInPlace(a)) bytes += part.bytes();
  return bytes == a.adopted.pages.bytes();
}

// ---- fork()

// fork() has all locks.  What the system refuses here is not mapped in the child, for it is kept from children.
void Adoptions::makePrivate() {
  (void)caught([]() -> Status {
    for (auto& [id, a] : hostTable().all) {
      if (!a.isAdopted() || a.adopted.apart) continue;
      for (const Pages& part : partsInPlace(a)) a.adopted.apart = mapPrivately(a, part) || a.adopted.apart;
    }
    return {};
  });
}

// ---- Memory that is registered already

/// Adopted memory that is not where it was, or not shared any more, makes room for what is there now.
void forget(HostTable& t, const Allocation* a) {
  const std::lock_guard lock(t.mutex);
  t.all.at(a->id).adopted.apart = true;
  t.byBegin.erase(a->begin);
}

/// The allocation that overlaps [data, data + bytes), if there is one.
Allocation* overlapping(HostTable& t, const std::byte* data, size_t bytes) {
  const std::lock_guard lock(t.mutex);
  const auto after = t.byBegin.lower_bound(data + bytes);
  if (after == t.byBegin.begin()) return nullptr;
  Allocation* last = std::prev(after)->second;
  return last->begin + last->bytes > data ? last : nullptr;
}

/// The memory that others have adopted and that holds all of this; null: there is none, and nothing overlaps.
Result<Allocation*> usedByOthers(const std::byte* data, size_t bytes) {
  HostTable& t = hostTable();
  while (Allocation* a = overlapping(t, data, bytes)) {
    if (a->isAdopted() && (a->adopted.apart || !allInPlace(*a))) {
      forget(t, a);
    } else if (a->holds(data, bytes)) {
      return a;
    } else {
      return invalidUsage(ErrorCode::NotAdopted, "it overlaps other registered memory, [",
                          static_cast<const void*>(a->begin), ", ", static_cast<const void*>(a->begin + a->bytes),
                          "), which does not hold all of it");
    }
  }
  return static_cast<Allocation*>(nullptr);
}

// ---- What stands against it

/// Descriptors are the program's, too: adopted memory takes a quarter of them at most.
Status checkDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const size_t adopted = Adoptions::instance().traits.size();
  if (adopted < limit.rlim_cur / 4) return {};
  return invalidUsage(ErrorCode::NotAdopted, "there are ", adopted,
                      " pieces of registered memory with a descriptor each, of ", limit.rlim_cur, " (ulimit -n)");
}

Status checkProcess(const Pages& pages) {
  const char here = 0;
  if (pages.holds(&here)) return invalidUsage(ErrorCode::NotAdopted, "it is the stack of the thread that registers it");
  if (pages.bytes() > availableBytes())
    return systemError(ErrorCode::NoMemory, "there is no memory for a copy of it: ", availableBytes(),
                       " bytes are available");
  if (const size_t pinned = pinnedBytes(); pinned != 0)
    return invalidUsage(ErrorCode::NotAdopted, "adapters or io_uring have pinned ", pinned,
                        " bytes of this process, and it may be of them");
  if (const std::string device = mappedDevice(); !device.empty())
    return invalidUsage(ErrorCode::NotAdopted, "this process uses ", device, ", which may have pinned it");
  return checkDescriptors();
}

// ---- Adopting

Status copyInto(int fd, size_t offset, const std::byte* data, size_t bytes) {
  while (bytes != 0) {
    const ssize_t n = pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    const int why = n < 0 ? errno : ENOSPC;
    if (n <= 0) return errnoError(why, ErrorCode::SharedMemoryRefused, "copying it into a memfd");
    data += n;
    offset += static_cast<size_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return {};
}

/// A memfd with all bytes of [data, data + bytes), which lie in it as they do in pages.
Result<Allocation> copyOf(std::byte* data, size_t bytes, const Pages& pages) {
  const size_t page = pageBytes();
  const size_t head = static_cast<size_t>(pages.begin - data);
  const size_t tail = bytes - head - pages.bytes();
  const size_t lead = head == 0 ? 0 : page;
  Allocation a;
  TUTTI_ASSIGN(a.id, newAllocationId());
  a.begin = data;
  a.bytes = bytes;
  a.lead = lead - head;
  a.adopted.pages = pages;
  TUTTI_ASSIGN(a.fd, createSharedMemory(lead + pages.bytes() + (tail == 0 ? 0 : page)));
  if (head != 0) {
    TUTTI_ASSIGN(a.adopted.head, Mapping::of(a.fd.get(), page));
    a.adopted.head.keepFromChildren();
  }
  if (tail != 0) {
    TUTTI_ASSIGN(a.adopted.tail, Mapping::of(a.fd.get(), page, 1, 0, lead + pages.bytes()));
    a.adopted.tail.keepFromChildren();
  }
  return a;
}

/// Puts it there invisibly, so that nothing can fail any more once the pages have moved.
Allocation& enter(Allocation&& made, const PageTraits& traits) {
  HostTable& t = hostTable();
  Adoptions::instance().traits.emplace(made.id, traits);
  const std::lock_guard lock(t.mutex);
  const AllocationId id = made.id;
  Allocation& a = t.all.emplace(id, std::move(made)).first->second;
  t.list(&a);
  return a;
}

void drop(const AllocationId& id) {
  HostTable& t = hostTable();
  Adoptions::instance().traits.erase(id);
  const std::lock_guard lock(t.mutex);
  const auto at = t.all.find(id);
  if (at == t.all.end()) return;
  std::erase_if(t.byBegin, [&](const auto& entry) { return entry.second == &at->second; });
  t.all.erase(at);
}

/// The pages are mapped from the memfd from now on.
Status movePages(Allocation& a, Mapping&& copy) {
  const Pages& pages = a.adopted.pages;
  copy.keepFromChildren();
  if (copy.moveTo(pages.begin)) return {};
  const int why = errno;
  // The system looks whether it can before it takes anything away.  If it took the pages and then failed, they are in
  // the memfd, and it must give them addresses.
  unsigned char present = 0;
  if (mincore(pages.begin, 1, &present) != 0)
    TUTTI_ASSERT(mmap(pages.begin, pages.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a.fd.get(),
                      static_cast<off_t>(leadOf(a))) != MAP_FAILED);
  return errnoError(why, ErrorCode::SharedMemoryRefused, "moving its pages");
}

Result<AllocationId> adopt(std::byte* data, size_t bytes, const Pages& pages) {
  TUTTI_TRY(checkProcess(pages));
  TUTTI_ASSIGN(const PageTraits traits, PageTraits::of(pages));
  TUTTI_ASSIGN(Allocation made, copyOf(data, bytes, pages));
  const size_t phase = reinterpret_cast<uintptr_t>(pages.begin) % kHugePageBytes;
  TUTTI_ASSIGN(Mapping copy, Mapping::of(made.fd.get(), pages.bytes(), kHugePageBytes, phase, leadOf(made)));
  traits.apply(copy);
  TUTTI_TRY(copyInto(made.fd.get(), made.lead, data, bytes));
  if (!populate(copy.data(), copy.bytes()))
    return errnoError(errno, ErrorCode::SharedMemoryRefused, "mapping its pages");
  Allocation& a = enter(std::move(made), traits);
  if (Status moved = movePages(a, std::move(copy)); !moved.ok()) {
    drop(AllocationId(a.id));
    return moved;
  }
  const std::lock_guard lock(hostTable().mutex);
  a.adopted.visible = true;
  return a.id;
}

// ---- Giving back

/// Pages of the process's own with the same bytes in place of these.  Errors: SystemError, and nothing has changed.
Status makeAnonymous(const Pages& pages, const PageTraits& traits) {
  if (pages.bytes() > availableBytes()) return systemError(ErrorCode::NoMemory, "no memory for a copy");
  const size_t phase = reinterpret_cast<uintptr_t>(pages.begin) % kHugePageBytes;
  TUTTI_ASSIGN(Mapping copy, Mapping::of(-1, pages.bytes(), kHugePageBytes, phase));
  traits.apply(copy);
  if (!populate(copy.data(), copy.bytes()))
    return errnoError(errno, ErrorCode::SharedMemoryRefused, "populating a copy");
  std::memcpy(copy.data(), pages.begin, pages.bytes());
  if (!copy.moveTo(pages.begin)) return errnoError(errno, ErrorCode::SharedMemoryRefused, "moving a copy");
  return {};
}

/// Of pages that are still in place.  release: nobody else has the memfd's pages but peers, which read them no more.
void makePrivate(const Allocation& a, const Pages& part, const PageTraits* anonymousAs, bool release) {
  for (std::byte* at = part.begin; at < part.end;) {
    const Pages piece{at, at + std::min<size_t>(kBackBytes, static_cast<size_t>(part.end - at))};
    at = piece.end;
    if (anonymousAs == nullptr || !makeAnonymous(piece, *anonymousAs).ok()) {
      (void)mapPrivately(a, piece);
      continue;
    }
    const size_t offset = leadOf(a) + static_cast<size_t>(piece.begin - a.adopted.pages.begin);
    if (release)
      fallocate(a.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(piece.bytes()));
  }
}

}  // namespace

Result<std::unique_ptr<Adoption>> Adoption::of(void* data, size_t bytes) {
  auto* const begin = static_cast<std::byte*>(data);
  const Pages pages = wholePages(begin, bytes);
  if (pages.bytes() == 0) return invalidUsage(ErrorCode::NotAdopted, "it holds no whole page");
  if (inArena(data, bytes)) return std::unique_ptr<Adoption>();
  Adoptions& adoptions = Adoptions::instance();
  const std::lock_guard lock(adoptions.mutex);
  std::unique_ptr<Adoption> adoption(new Adoption);
  TUTTI_ASSIGN(Allocation* const others, usedByOthers(begin, bytes));
  if (others != nullptr && !others->isAdopted()) return std::unique_ptr<Adoption>();
  if (others != nullptr) {
    adoption->id_ = others->id;
  } else {
    TUTTI_ASSIGN(adoption->id_, adopt(begin, bytes, pages));
  }
  const std::lock_guard inTable(hostTable().mutex);
  ++hostTable().all.at(adoption->id_).adopted.users;
  adoption->left_ = false;
  return adoption;
}

Adoption::~Adoption() {
  (void)caught([this]() -> Status {
    leave(false);
    return {};
  });
}

void Adoption::giveBack() { leave(true); }

void Adoption::leave(bool anonymous) {
  if (left_) return;
  left_ = true;
  Adoptions& adoptions = Adoptions::instance();
  const std::lock_guard lock(adoptions.mutex);
  HostTable& t = hostTable();
  const Allocation* a = nullptr;
  {
    const std::lock_guard inTable(t.mutex);
    Allocation& mine = t.all.at(id_);
    if (--mine.adopted.users > 0) return;
    mine.adopted.visible = false;
    a = &mine;
  }
  const std::vector<Pages> parts = partsInPlace(*a);
  const bool whole = !a->adopted.apart && allInPlace(*a);
  for (const Pages& part : parts) makePrivate(*a, part, anonymous ? &adoptions.traits.at(id_) : nullptr, whole);
  drop(id_);
}

}  // namespace tutti
