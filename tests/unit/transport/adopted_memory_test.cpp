// Plain memory that peers map: what a program sees of it, and what is refused.
#include "src/device/host/adopted_memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "src/device/host/memory_map.hpp"
#include "src/device/host/shared_memory.hpp"
#include "tests/support/fork.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr size_t kPage = 4096;

std::byte valueAt(size_t i) { return static_cast<std::byte>((i * 7 + (i >> 12)) & 0xff); }

void fill(std::byte* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) data[i] = valueAt(i);
}

bool filled(const std::byte* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (data[i] != valueAt(i)) return false;
  return true;
}

/// Anonymous pages, filled.
struct Area {
  explicit Area(size_t pages, int protection = PROT_READ | PROT_WRITE) : bytes(pages * kPage) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    data = static_cast<std::byte*>(memory);
    fill(data, bytes);
    if (protection != (PROT_READ | PROT_WRITE)) mprotect(data, bytes, protection);
  }
  ~Area() {
    if (bytes != 0) munmap(data, bytes);
  }
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  std::byte* data;
  size_t bytes;
};

std::vector<MappedRange> rangesOf(const std::byte* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return *mappedRanges(begin, begin + bytes, true);
}

bool allAnonymous(const std::byte* data, size_t bytes) {
  const auto ranges = rangesOf(data, bytes);
  return !ranges.empty() &&
         std::ranges::all_of(ranges, [](const MappedRange& r) { return r.inode == 0 && r.permissions == "rw-p"; });
}

/// What a peer reads of [data, data + bytes) after it has been offered.
std::vector<std::byte> seenByPeer(const std::byte* data, size_t bytes) {
  const auto span = hostOffer(data, bytes);
  if (!span) return {};
  const Fd fd = *hostShare(span->id);
  const Mapping mapping = *Mapping::of(fd.get(), *sharedMemoryBytes(fd.get()));
  return {mapping.data() + span->offset, mapping.data() + span->offset + bytes};
}

std::vector<std::byte> copyOf(const std::byte* data, size_t bytes) { return {data, data + bytes}; }

/// Why it is refused; "" if it is not.
std::string refusal(void* data, size_t bytes) {
  const auto adoption = Adoption::of(data, bytes);
  return adoption.ok() ? "" : adoption.status().message();
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool limit(int resource, rlim_t most) {
  rlimit limits{};
  const auto which = static_cast<__rlimit_resource_t>(resource);
  if (getrlimit(which, &limits) != 0) return false;
  limits.rlim_cur = most;
  return setrlimit(which, &limits) == 0;
}

/// What a child says, whose own view of the memory `look` describes.
template <class Look>
int inChild(Look look) {
  const pid_t child = forkWhenIdle();
  if (child == 0) _exit(look());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("adopted memory keeps its bytes and its address, is what peers see, and comes back as it was") {
  struct Row {
    size_t first, bytes;  // within 40 pages
  };
  const auto row = GENERATE(values<Row>({{0, 40 * kPage},
                                         {0, kPage},
                                         {16, 40 * kPage - 16},
                                         {16, 3 * kPage},
                                         {4095, kPage + 1},
                                         {kPage, 2 * kPage + 1},
                                         {5 * kPage + 100, 20 * kPage + 3333}}));
  CAPTURE(row.first, row.bytes);
  const Area area(40);
  std::byte* const data = area.data + row.first;
  auto adoption = *Adoption::of(data, row.bytes);
  REQUIRE(adoption != nullptr);
  CHECK(filled(area.data, area.bytes));
  REQUIRE(hostLookup(data, row.bytes));
  CHECK(hostLookup(data, row.bytes)->adopted);
  CHECK_FALSE(hostLookup(data, row.bytes + 1));
  CHECK_FALSE(hostLookup(data - 1, 1));
  CHECK(hostFree(data).code() == tuttiInvalidArgument);
  // Pieces that begin or end in the pages that it shares with others, lie there, or have nothing to do with them.
  for (const size_t from : {size_t{0}, size_t{1}, row.bytes / 3, row.bytes - 1}) {
    for (const size_t bytes : {size_t{1}, row.bytes / 2, row.bytes - from}) {
      if (from + bytes > row.bytes) continue;
      CAPTURE(from, bytes);
      data[from] ^= std::byte{0xff};
      CHECK(seenByPeer(data + from, bytes) == copyOf(data + from, bytes));
      data[from] ^= std::byte{0xff};
    }
  }
  const AllocationId id = hostLookup(data, 1)->id;
  data[row.bytes / 2] = std::byte{99};
  adoption->giveBack();
  CHECK_FALSE(hostLookup(data, 1));
  CHECK_FALSE(hostAlive(id));
  CHECK(data[row.bytes / 2] == std::byte{99});
  data[row.bytes / 2] = valueAt(row.first + row.bytes / 2);
  CHECK(filled(area.data, area.bytes));
  CHECK(allAnonymous(area.data, area.bytes));
}

TEST_CASE("memory of malloc is adopted beside its allocator's own words") {
  for (const size_t bytes : {size_t{60'000}, size_t{1'000'003}, (size_t{4} << 20) + 8}) {
    auto* const data = static_cast<std::byte*>(std::malloc(bytes));
    fill(data, bytes);
    auto adoption = *Adoption::of(data, bytes);
    CHECK(seenByPeer(data, bytes) == copyOf(data, bytes));
    std::free(std::malloc(100));
    adoption->giveBack();
    CHECK(filled(data, bytes));
    std::free(data);
  }
}

TEST_CASE("what is left without being given back is private, and holds what it held") {
  const Area area(20);
  { auto adoption = *Adoption::of(area.data + 8, area.bytes - 8); }
  CHECK(filled(area.data, area.bytes));
  CHECK_FALSE(hostLookup(area.data + 8, 1));
  for (const MappedRange& range : rangesOf(area.data, area.bytes)) CHECK(range.permissions == "rw-p");
  // It can be adopted again.
  auto again = *Adoption::of(area.data, area.bytes);
  CHECK(seenByPeer(area.data, area.bytes) == copyOf(area.data, area.bytes));
  again->giveBack();
  CHECK(filled(area.data, area.bytes));
  CHECK(allAnonymous(area.data, area.bytes));
}

TEST_CASE("threads that read while memory is adopted and given back see what is there") {
  const Area area(500);
  std::atomic<bool> ending{false};
  std::atomic<int> wrong{0}, rounds{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      while (!ending) {
        if (!filled(area.data, area.bytes)) ++wrong;
        ++rounds;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    auto adoption = *Adoption::of(area.data + 16, area.bytes - 32);
    adoption->giveBack();
  }
  while (rounds < 2) std::this_thread::yield();
  ending = true;
  for (auto& reader : readers) reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("several registrations of the same memory share it until the last one ends") {
  const Area area(30);
  auto whole = *Adoption::of(area.data, area.bytes);
  auto same = *Adoption::of(area.data, area.bytes);
  auto part = *Adoption::of(area.data + 3 * kPage + 5, 4 * kPage);
  CHECK(hostLookup(area.data + 3 * kPage + 5, 100)->id == hostLookup(area.data, 1)->id);
  CHECK(says(refusal(area.data + 29 * kPage, 2 * kPage), "overlaps other registered memory"));
  whole->giveBack();
  part->giveBack();
  CHECK(hostLookup(area.data, area.bytes));
  same.reset();
  CHECK_FALSE(hostLookup(area.data, 1));
  CHECK(filled(area.data, area.bytes));
  // Neighbours in one page are no overlap.
  auto left = *Adoption::of(area.data, 4 * kPage + 100);
  auto right = *Adoption::of(area.data + 4 * kPage + 100, 6 * kPage);
  CHECK(seenByPeer(area.data + 4 * kPage, 100) == copyOf(area.data + 4 * kPage, 100));
  CHECK(seenByPeer(area.data + 4 * kPage + 100, 5000) == copyOf(area.data + 4 * kPage + 100, 5000));
  CHECK_FALSE(hostLookup(area.data + 4 * kPage, 200));
  left->giveBack();
  right->giveBack();
  CHECK(filled(area.data, area.bytes));
  void* const own = *hostAlloc(9 * kPage);
  CHECK(*Adoption::of(static_cast<std::byte*>(own) + kPage, 5 * kPage) == nullptr);
  CHECK(hostFree(own).ok());
}

TEST_CASE("what cannot be adopted is refused by name, and left as it is") {
  const Area area(8);
  CHECK(says(refusal(area.data + 1, kPage), "no whole page"));
  SECTION("protected") {
    const Area readOnly(4, PROT_READ), nothing(4, PROT_NONE);
    CHECK(says(refusal(readOnly.data, readOnly.bytes), "not writable"));
    CHECK(says(refusal(nothing.data, nothing.bytes), "not writable"));
    mprotect(area.data + 3 * kPage, kPage, PROT_NONE);  // a guard page
    CHECK(says(refusal(area.data, area.bytes), "not writable"));
    mprotect(area.data + 3 * kPage, kPage, PROT_READ | PROT_WRITE);
  }
  SECTION("unmapped") {
    Area holed(4);
    munmap(holed.data + kPage, kPage);
    CHECK(says(refusal(holed.data, holed.bytes), "nothing is mapped"));
  }
  SECTION("of files and shared") {
    const Fd file(memfd_create("other", MFD_CLOEXEC));
    REQUIRE(ftruncate(file.get(), 4 * kPage) == 0);
    void* shared = mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    void* copied = mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
    CHECK(says(refusal(shared, 4 * kPage), "shared with other processes"));
    CHECK(says(refusal(copied, 4 * kPage), "of a file, /memfd:other"));
    munmap(shared, 4 * kPage);
    munmap(copied, 4 * kPage);
  }
  SECTION("locked, kept from children, wiped") {
    // Sanitizers let mlock() do nothing.
    if (mlock(area.data, kPage) == 0 && says(rangesOf(area.data, kPage).front().flags, "lo")) {
      CHECK(says(refusal(area.data, area.bytes), "locked"));
      munlock(area.data, kPage);
    }
    madvise(area.data, area.bytes, MADV_DONTFORK);
    CHECK(says(refusal(area.data, area.bytes), "kept from children"));
    madvise(area.data, area.bytes, MADV_DOFORK);
    madvise(area.data, area.bytes, MADV_WIPEONFORK);
    CHECK(says(refusal(area.data, area.bytes), "wiped in children"));
    madvise(area.data, area.bytes, MADV_KEEPONFORK);
  }
  SECTION("advised in parts") {
    if (madvise(area.data, 2 * kPage, MADV_RANDOM) == 0)
      CHECK(says(refusal(area.data, area.bytes), "its parts differ"));
    madvise(area.data, 2 * kPage, MADV_NORMAL);
  }
  SECTION("the stack") {
    std::byte local[8 * kPage];
    fill(local, sizeof local);
    CHECK(refusal(local, sizeof local) != "");
    CHECK(filled(local, sizeof local));
  }
  CHECK(refusal(area.data, area.bytes) == "");
  CHECK(filled(area.data, area.bytes));
}

TEST_CASE("without addresses, file sizes or descriptors memory is refused, and nothing is lost") {
  const auto resource = GENERATE(RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_NOFILE);
  CAPTURE(resource);
  const Area area(300);
  CHECK(inChild([&] {
          if (!limit(resource, resource == RLIMIT_FSIZE ? 4096 : 0)) return 9;
          if (Adoption::of(area.data, area.bytes).ok()) return 1;
          return filled(area.data, area.bytes) ? 0 : 2;
        }) == 0);
}

TEST_CASE("without memory for a copy it is left private, and nothing is lost") {
  const Area area(300);
  CHECK(inChild([&] {
          auto adoption = Adoption::of(area.data + 100, area.bytes - 100);
          if (!adoption.ok()) return 8;
          area.data[kPage] = std::byte{77};
          if (!limit(RLIMIT_AS, 0)) return 9;
          (*adoption)->giveBack();
          if (area.data[kPage] != std::byte{77} || hostLookup(area.data + 100, 1)) return 1;
          area.data[kPage] = valueAt(kPage);
          return filled(area.data, area.bytes) ? 0 : 2;
        }) == 0);
}

TEST_CASE("a child has the memory as a fork leaves it, and no write of either reaches the other") {
  const Area area(50);
  auto adoption = *Adoption::of(area.data + 16, area.bytes - 16);
  const auto before = seenByPeer(area.data + 16, area.bytes - 16);
  int toChild[2], toParent[2];
  REQUIRE((pipe(toChild) == 0 && pipe(toParent) == 0));
  const pid_t child = forkWhenIdle();
  char word = 0;
  if (child == 0) {
    if (!filled(area.data, area.bytes) || hostLookup(area.data + 16, 1)) _exit(1);
    area.data[10 * kPage] = std::byte{1};
    if (write(toParent[1], &word, 1) != 1 || read(toChild[0], &word, 1) != 1) _exit(2);
    if (area.data[20 * kPage] != valueAt(20 * kPage)) _exit(3);  // the parent has written there
    area.data[10 * kPage] = valueAt(10 * kPage);
    _exit(filled(area.data, area.bytes) ? 0 : 4);
  }
  REQUIRE(read(toParent[0], &word, 1) == 1);
  CHECK(area.data[10 * kPage] == valueAt(10 * kPage));
  area.data[20 * kPage] = std::byte{2};
  REQUIRE(write(toChild[1], &word, 1) == 1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  for (const int fd : {toChild[0], toChild[1], toParent[0], toParent[1]}) close(fd);
  // It is private now, until it is registered anew.
  CHECK_FALSE(hostLookup(area.data + 16, 1));
  auto anew = *Adoption::of(area.data + 16, area.bytes - 16);
  CHECK(seenByPeer(area.data + 20 * kPage, 1) == std::vector{std::byte{2}});
  adoption->giveBack();
  CHECK(hostLookup(area.data + 16, 1));
  anew->giveBack();
  area.data[20 * kPage] = valueAt(20 * kPage);
  CHECK(filled(area.data, area.bytes));
  CHECK(allAnonymous(area.data, area.bytes));
  CHECK(before.size() == area.bytes - 16);
}

TEST_CASE("memory that was unmapped, moved or replaced while it was adopted is left alone") {
  Area area(20), beside(20);
  auto adoption = *Adoption::of(area.data, area.bytes);
  SECTION("moved by mremap, as realloc does") {
    void* moved = mremap(area.data, area.bytes, area.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, beside.data);
    REQUIRE(moved == beside.data);
    adoption->giveBack();
    CHECK(filled(beside.data, beside.bytes));
    beside.data[0] = std::byte{1};
    area.bytes = 0;
  }
  SECTION("unmapped, and its place taken by other memory") {
    void* const other =
        mmap(area.data, area.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    REQUIRE(other == area.data);
    std::memset(area.data, 5, area.bytes);
    CHECK(inChild([&] { return area.data[7] == std::byte{5} ? 0 : 1; }) == 0);
    CHECK(area.data[7] == std::byte{5});
    auto next = *Adoption::of(area.data, area.bytes);  // finds that the earlier is stale
    CHECK(seenByPeer(area.data, 3) == std::vector(3, std::byte{5}));
    adoption->giveBack();
    CHECK(seenByPeer(area.data, 3) == std::vector(3, std::byte{5}));
    next->giveBack();
    CHECK(area.data[area.bytes - 1] == std::byte{5});
  }
  SECTION("in part") {
    munmap(area.data + 4 * kPage, kPage);
    adoption->giveBack();
    CHECK(filled(area.data, 4 * kPage));
    CHECK(area.data[6 * kPage] == valueAt(6 * kPage));
    CHECK(allAnonymous(area.data + 5 * kPage, 15 * kPage));
  }
}

TEST_CASE("advice of madvise() is kept") {
  const Area area(1100);
  REQUIRE(madvise(area.data, area.bytes, MADV_DONTDUMP) == 0);
  const bool huge = madvise(area.data, area.bytes, MADV_HUGEPAGE) == 0;
  auto adoption = *Adoption::of(area.data, area.bytes);
  const auto flags = [&] { return rangesOf(area.data, area.bytes).front().flags; };
  CHECK(says(flags(), "dd"));
  if (huge) CHECK(says(flags(), "hg"));
  adoption->giveBack();
  CHECK(says(flags(), "dd"));
  if (huge) CHECK(says(flags(), "hg"));
  CHECK(filled(area.data, area.bytes));
}
