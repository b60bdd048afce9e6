// What a forked child may do with what its parent made: nothing, and it is told so; its parent goes on.
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/support/fork.hpp"
#include "tests/support/pair.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/thorough.hpp"

using namespace tutti::test;

namespace {

/// "" or the first complaint of a forked child, which says it through a pipe.
std::string inChild(const std::function<std::string()>& body, pid_t (*forkIt)() = forkWhenIdle) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = forkIt();
  if (child == 0) {
    ::alarm(60);  // one that hangs ends by it
    const std::string why = body();
    ::_exit(::write(ends[1], why.data(), why.size()) == static_cast<ssize_t>(why.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string why(4096, '\0');
  const ssize_t n = ::read(ends[0], why.data(), why.size());
  why.resize(n < 0 ? 0 : static_cast<size_t>(n));
  ::close(ends[0]);
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return "no child";
  return status == 0 ? why : why + "; the child ended with status " + std::to_string(status);
}

std::string sumOn(const Pair& pair, int rank) {
  int32_t x = rank + 1;
  RANK_TRY(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, pair.ranks[rank], nullptr));
  RANK_CHECK(x == 3);
  return "";
}
/// Sums 1 and 2 on both ranks; "" or a complaint.
std::string sumOnBoth(const Pair& pair) {
  std::string why;
  std::thread other([&] { (void)sumOn(pair, 1); });
  why = sumOn(pair, 0);
  other.join();
  return why;
}

/// Whether the last call of this thread was refused as one of a forked child.
std::string unlessRefused(const char* what, tuttiResult_t result) {
  const std::string sentence = tuttiGetLastError(nullptr);
  if (result == tuttiInvalidUsage && sentence.find("before this process was forked") != std::string::npos) return "";
  return std::string(what) + " gave " + std::to_string(result) + ": " + sentence;
}

#define REFUSED(call)                                                                \
  do {                                                                               \
    if (std::string why_ = unlessRefused(#call, (call)); !why_.empty()) return why_; \
  } while (0)

/// Every entry that takes a communicator.
std::string useOf(tuttiComm_t comm) {
  int32_t x = 1;
  int got = 0;
  tuttiResult_t state = tuttiSuccess;
  void* registration = nullptr;
  tuttiRedOp_t op = tuttiSum;
  tuttiComm_t child = nullptr;
  const int other = 1;
  REFUSED(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, comm, nullptr));
  REFUSED(tuttiBroadcast(&x, &x, 1, tuttiInt32, 0, comm, nullptr));
  REFUSED(tuttiBarrier(comm, nullptr));
  REFUSED(tuttiSend(&x, 1, tuttiInt32, 1, comm, nullptr));
  REFUSED(tuttiRecv(&x, 1, tuttiInt32, 1, comm, nullptr));
  REFUSED(tuttiCommSplit(comm, 0, 0, &child, nullptr));
  REFUSED(tuttiCommShrink(comm, &other, 1, &child, nullptr, TUTTI_SHRINK_DEFAULT));
  REFUSED(tuttiCommRevoke(comm, 0));
  REFUSED(tuttiCommFinalize(comm));
  REFUSED(tuttiCommDestroy(comm));
  REFUSED(tuttiCommAbort(comm));
  REFUSED(tuttiCommGetAsyncError(comm, &state));
  REFUSED(tuttiCommCount(comm, &got));
  REFUSED(tuttiCommUserRank(comm, &got));
  REFUSED(tuttiCommSetTimeout(comm, 1));
  REFUSED(tuttiCommRegister(comm, &x, sizeof x, &registration));
  REFUSED(tuttiRedOpCreatePreMulSum(&op, &x, tuttiInt32, tuttiScalarHostImmediate, comm));
  return "";
}

/// Pieces of memory of this process that are shared with other ranks.
int sharedPieces() {
  int pieces = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) pieces += line.find("memfd:tutti") != std::string::npos ? 1 : 0;
  return pieces;
}

std::string useInGroup(tuttiComm_t comm) {
  int32_t x = 1;
  (void)tuttiGroupStart();
  const tuttiResult_t called = tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, comm, nullptr);
  const tuttiResult_t ended = tuttiGroupEnd();
  if (called == tuttiSuccess && ended == tuttiSuccess) return "a group of it succeeded";
  return x == 1 ? "" : "a group of it moved data";
}

}  // namespace

TEST_CASE("a forked child is refused its parent's communicators by every call, and makes its own") {
  const Pair pair;
  REQUIRE(sumOnBoth(pair) == "");
  REQUIRE(sumOnBoth(pair) == "");  // now known to the fast path
  CHECK(inChild([&]() -> std::string {
          for (const tuttiComm_t comm : pair.ranks) {
            if (std::string why = useOf(comm); !why.empty()) return why;
            if (std::string why = useInGroup(comm); !why.empty()) return why;
          }
          return onRanks(2, [](const Rank& r) -> std::string {
            int32_t x = 1;
            RANK_TRY(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, r.comm, nullptr));
            RANK_CHECK(x == 2);
            return "";
          });
        }) == "");
  CHECK(sumOnBoth(pair) == "");
}

TEST_CASE("a forked child has no part of the memory by which its parent talks to other ranks") {
  const Pair pair;
  REQUIRE(sumOnBoth(pair) == "");
  REQUIRE(sharedPieces() > 0);
  CHECK(inChild([] { return sharedPieces() == 0 ? std::string() : "it has some"; }) == "");
}

TEST_CASE("a group that was open at a fork ends in an error in the child") {
  const Pair pair;
  int32_t x = 1;
  REQUIRE(tuttiGroupStart() == tuttiSuccess);
  for (const tuttiComm_t comm : pair.ranks) {
    REQUIRE(tuttiAllReduce(&x, &x, 0, tuttiInt32, tuttiSum, comm, nullptr) == tuttiSuccess);
  }
  CHECK(inChild([]() -> std::string {
          REFUSED(tuttiGroupEnd());
          return "";
        }) == "");
  CHECK(tuttiGroupEnd() == tuttiSuccess);
}

TEST_CASE("a forked child is refused its parent's streams and events, also with a communicator of its own") {
  tuttiStream_t stream = nullptr;
  tuttiEvent_t event = nullptr;
  REQUIRE(tuttiStreamCreate(&stream) == tuttiSuccess);
  REQUIRE(tuttiEventCreate(&event) == tuttiSuccess);
  CHECK(inChild([&]() -> std::string {
          REFUSED(tuttiStreamSynchronize(stream));
          REFUSED(tuttiStreamQuery(stream));
          REFUSED(tuttiEventSynchronize(event));
          REFUSED(tuttiEventQuery(event));
          REFUSED(tuttiEventRecord(event, stream));
          REFUSED(tuttiStreamWaitEvent(stream, event));
          REFUSED(tuttiEventDestroy(event));
          REFUSED(tuttiStreamDestroy(stream));
          tuttiComm_t own = nullptr;
          RANK_TRY(tuttiCommInitAll(&own, 1, nullptr));
          int32_t x = 1;
          REFUSED(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, own, stream));
          RANK_TRY(tuttiCommDestroy(own));
          return "";
        }) == "");
  CHECK(tuttiEventDestroy(event) == tuttiSuccess);
  CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
}

// The sanitizers' allocators do not free the locks of other threads in a child.
TEST_CASE("a child that is forked while other threads are in calls does not hang", "[thorough]") {
  const Pair pair;
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int rank = 0; rank < 2; ++rank) {
    busy.emplace_back([&, rank] {
      for (int32_t x[2] = {0, 0}; x[1] == 0;) {
        x[0] = 0;
        x[1] = over ? 1 : 0;  // both ranks see the end in the same call
        (void)tuttiAllReduce(x, x, 2, tuttiInt32, tuttiMax, pair.ranks[rank], nullptr);
        void* memory = nullptr;
        if (tuttiMemAlloc(&memory, 64) == tuttiSuccess) (void)tuttiMemFree(memory);
        (void)tuttiSetDefault("TUTTI_SPIN_US", nullptr);
        tuttiStream_t stream = nullptr;
        if (tuttiStreamCreate(&stream) == tuttiSuccess) (void)tuttiStreamDestroy(stream);
      }
    });
  }
  std::string why;
  for (int i = 0; i < (kThorough ? 100 : 0) && why.empty(); ++i) {
    why = inChild(
        [&]() -> std::string {
          REFUSED(tuttiBarrier(pair.ranks[0], nullptr));
          void* memory = nullptr;
          RANK_TRY(tuttiMemAlloc(&memory, 64));
          RANK_TRY(tuttiMemFree(memory));
          tuttiComm_t own = nullptr;
          if (i % 20 == 0) RANK_TRY(tuttiCommInitAll(&own, 1, nullptr));
          return "";
        },
        [] { return ::fork(); });
  }
  over = true;
  for (std::thread& thread : busy) thread.join();
  CHECK(why == "");
}
