#include "src/device/host/host_memory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "src/device/host/shared_memory.hpp"

using namespace tutti;

static int ofTheProgram = 0;  // below all that is mapped

TEST_CASE("allocated memory is page aligned, zero, and found again by any address in it") {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{5000}, (size_t{2} << 20) + 1, size_t{8} << 20}) {
    auto* p = static_cast<std::byte*>(*hostAlloc(bytes));
    REQUIRE(p != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(p) % (bytes >= kHugePageBytes ? kHugePageBytes : 4096) == 0);
    CHECK(std::all_of(p, p + bytes, [](std::byte b) { return b == std::byte{0}; }));
    const auto whole = hostLookup(p, bytes);
    REQUIRE(whole);
    CHECK(whole->offset == 0);
    CHECK(hostLookup(p + bytes - 1, 1)->offset == bytes - 1);
    CHECK(hostLookup(p + bytes - 1, 1)->id == whole->id);
    CHECK_FALSE(hostLookup(p, bytes + 1));
    CHECK_FALSE(hostLookup(p + 1, bytes));
    CHECK_FALSE(hostLookup(p - 1, 1));
    CHECK_FALSE(hostLookup(p, SIZE_MAX));
    CHECK(hostMayHold(p));
    CHECK(hostMayHold(p + bytes));
    CHECK_FALSE(hostMayHold(&ofTheProgram));
    CHECK(hostAlive(whole->id));
    CHECK(hostFree(p).ok());
    CHECK_FALSE(hostAlive(whole->id));
    CHECK_FALSE(hostLookup(p, 1));
    CHECK(hostShare(whole->id).status().code() == tuttiInvalidUsage);
  }
}

TEST_CASE("another mapping of an allocation sees the same bytes, and its pages go when it is freed") {
  auto* p = static_cast<std::byte*>(*hostAlloc(100'000));
  const AllocationId id = hostLookup(p, 1)->id;
  const Fd fd = *hostShare(id);
  struct stat info {};
  REQUIRE(fstat(fd.get(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(info.st_nlink == 0);
  CHECK(info.st_blocks >= 100'000 / 512);
  const size_t bytes = *sharedMemoryBytes(fd.get());
  const Mapping other = *Mapping::of(fd.get(), bytes);
  p[99'999] = std::byte{42};
  CHECK(other.data()[99'999] == std::byte{42});
  CHECK(ftruncate(fd.get(), 0) != 0);  // sealed
  CHECK(hostFree(p).ok());
  REQUIRE(fstat(fd.get(), &info) == 0);
  CHECK(info.st_blocks == 0);
  CHECK(other.data()[99'999] == std::byte{0});  // stale, but no SIGBUS
}

TEST_CASE("what cannot be allocated or freed is refused in words") {
  CHECK(*hostAlloc(0) == nullptr);
  CHECK(hostFree(nullptr).ok());
  CHECK(hostAlloc(size_t{1} << 50).status().code() == tuttiSystemError);
  CHECK(hostAlloc(SIZE_MAX).status().code() == tuttiSystemError);
  int local = 0;
  CHECK(hostFree(&local).code() == tuttiInvalidArgument);
  auto* p = static_cast<std::byte*>(*hostAlloc(5000));
  CHECK(hostFree(p + 1).code() == tuttiInvalidArgument);
  CHECK(hostFree(p).ok());
  CHECK(hostFree(p).code() == tuttiInvalidArgument);
}

TEST_CASE("threads allocate and free at the same time, and no two allocations have one id") {
  std::vector<std::thread> threads;
  std::vector<std::vector<AllocationId>> ids(4);
  for (size_t t = 0; t < ids.size(); ++t) {
    threads.emplace_back([&ids, t] {
      for (int i = 0; i < 50; ++i) {
        auto p = hostAlloc(4096 * (t + 1));
        if (!p.ok()) return;
        ids[t].push_back(hostLookup(*p, 1)->id);
        (void)hostFree(*p);
      }
    });
  }
  std::set<AllocationId> all;
  for (auto& t : threads) t.join();
  for (auto& list : ids) all.insert(list.begin(), list.end());
  CHECK(all.size() == 200);
}
