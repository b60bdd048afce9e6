// A thread's slice of processor time, as the kernel tells it.
#include "src/exec/time_slice.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
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

bool bindTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

/// The slice of rank 0's thread once it is short, or after so many AllReduces of three ranks on one core, on which
/// another thread computes.
uint64_t sliceBesideAnother(int mostCalls) {
  const int cpu = sched_getcpu();
  std::atomic<bool> over{false};
  std::thread computing([&] {
    bindTo(cpu);
    while (!over) continue;
  });
  uint64_t slice = 0;
  const std::string complaints = test::onThreads(3, [&](int rank, const tuttiUniqueId& id) {
    if (!bindTo(cpu)) return std::string("cannot bind");
    return test::asRank(rank, 3, id, TUTTI_CONFIG_INITIALIZER, [&](const test::Rank& r) -> std::string {
      float in = 1, out = 0;
      for (int i = 0; i < mostCalls && out < 4; ++i) {
        if (r.rank == 0) slice = timeSliceNs();
        in = r.rank == 0 && slice == kShortNs ? 2 : 1;  // the sum tells the others that it is over
        RANK_TRY(tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, r.comm, nullptr));
      }
      return "";
    });
  });
  over = true;
  computing.join();
  CHECK(complaints == "");
  return slice;
}

}  // namespace

TEST_CASE("a thread's slice can be set, and its policy and priority stay") {
  if (!kernelHasSlices()) return;
  CHECK(onThread([] { return setTimeSliceNs(400'000) ? timeSliceNs() : 0; }) == 400'000);
  CHECK(onThread([] {
    const auto self = static_cast<id_t>(gettid());
    return setpriority(PRIO_PROCESS, self, 7) == 0 && setTimeSliceNs(400'000) && getpriority(PRIO_PROCESS, self) == 7 &&
           sched_getscheduler(0) == SCHED_OTHER;
  }));
}

TEST_CASE("a slow yield makes the slice short, and many quick ones make it what it was") {
  if (!kernelHasSlices()) return;
  const uint64_t before = timeSliceNs();
  CHECK(onThread([] { return YieldWatch().note(2'000'000, 0), timeSliceNs(); }) == before);
  CHECK(onThread([] { return YieldWatch().note(20'000, kShortNs), timeSliceNs(); }) == before);
  CHECK(onThread([] { return YieldWatch().note(2'000'000, kShortNs), timeSliceNs(); }) == kShortNs);
  CHECK(onThread([] {
          YieldWatch watch;
          watch.note(2'000'000, kShortNs);
          for (int i = 0; i < 200; ++i) watch.note(1000, kShortNs);
          watch.note(90'000, kShortNs);  // still there
          for (int i = 0; i < 200; ++i) watch.note(1000, kShortNs);
          return timeSliceNs();
        }) == kShortNs);
  CHECK(onThread([] {
          YieldWatch watch;
          watch.note(2'000'000, kShortNs);
          for (int i = 0; i < 256; ++i) watch.note(1000, kShortNs);
          return timeSliceNs();
        }) == before);
}

TEST_CASE("ranks that share a core with another program ask for short slices, unless they are told not to") {
  if (!kernelHasSlices()) return;
  const uint64_t before = timeSliceNs();
  CHECK(sliceBesideAnother(2000) == kShortNs);
  const test::Variable off("TUTTI_SLICE_US", "0");
  CHECK(sliceBesideAnother(50) == before);
}
