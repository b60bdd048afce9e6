// A thread's slice of processor time, as the kernel tells it.
#include "src/exec/time_slice.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <initializer_list>
#include <thread>

#include "tests/support/ranks.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;

namespace {

constexpr uint64_t kShortNs = 100'000;

/// False, with a word about it, where there is nothing to see.
bool kernelHasSlices() {
  if (timeSliceNs() > kShortNs) return true;
  WARN("this kernel has no slices of threads (Linux 6.12 has), or they are short already: nothing to see here");
  return false;
}

/// What `body` gives in a thread of its own, whose slice is nobody else's.
template <class Body>
auto onThread(const Body& body) {
  decltype(body()) result{};
  std::thread([&] { result = body(); }).join();
  return result;
}

/// The slice of rank 0's thread after AllReduces of three ranks on one core.
uint64_t sliceAfterCalls() {
  uint64_t slice = 0;
  const int cpu = sched_getcpu();
  const std::string complaints = test::onThreads(3, [&](int rank, const tuttiUniqueId& id) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(cpu), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) return std::string("cannot bind");
    return test::asRank(rank, 3, id, TUTTI_CONFIG_INITIALIZER, [&](const test::Rank& r) -> std::string {
      for (int i = 0; i < 50; ++i) {
        float in = 1, out = 0;
        RANK_TRY(tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, r.comm, nullptr));
        RANK_CHECK(out == 3);
      }
      if (r.rank == 0) slice = timeSliceNs();
      return "";
    });
  });
  CHECK(complaints == "");
  return slice;
}

}  // namespace

TEST_CASE("a thread's slice gets shorter, never longer, and its policy and priority stay") {
  if (!kernelHasSlices()) return;
  const uint64_t before = timeSliceNs();
  const auto sliceAfter = [](std::initializer_list<int> wishes) {
    return onThread([&] {
      for (const int us : wishes) shortenTimeSlice(us);
      return timeSliceNs();
    });
  };
  CHECK(sliceAfter({0}) == before);
  CHECK(sliceAfter({400}) == 400'000);
  CHECK(sliceAfter({400, 700}) == 400'000);
  CHECK(onThread([] {
    const auto self = static_cast<id_t>(gettid());
    if (setpriority(PRIO_PROCESS, self, 7) != 0) return false;
    shortenTimeSlice(400);
    return timeSliceNs() == 400'000 && getpriority(PRIO_PROCESS, self) == 7 && sched_getscheduler(0) == SCHED_OTHER;
  }));
}

TEST_CASE("threads whose ranks share a core get short slices if the user wants that") {
  if (!kernelHasSlices()) return;
  CHECK(sliceAfterCalls() == timeSliceNs());
  const test::Variable on("TUTTI_SLICE_US", "100");
  CHECK(sliceAfterCalls() == kShortNs);
}
