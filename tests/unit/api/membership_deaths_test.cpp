// Split, shrink and grow among processes of which one kills itself at a random moment of the call.  Nobody waits until
// the deadline; who splits or grows hears the rank of the dead in the parent, and all that live can shrink it and go
// on. A failing seed is printed; TUTTI_TEST_SEED=<seed> runs it alone.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <thread>

#include "tests/support/deadline.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"

using namespace tutti::test;

namespace {

constexpr int kMostOfAllMs = 10'000;  // for all of it; a machine may be slow

int64_t nowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

enum class Deed { Split, Grow, Shrink };

/// What is under way when a rank dies.
struct Change {
  int nRanks = 0, nNew = 0, victim = 0;
  Deed deed = Deed::Split;
  int colors = 1;
  int diesUs = 0;  // after all have joined
};

/// What processes share.
struct Seen {
  std::atomic<int64_t> diedUs{0};
  std::atomic<int64_t> slowestUs{0};  // from the death to the error
  std::atomic<int> errors{0};
};

Change changeOf(uint64_t seed) {
  std::mt19937_64 dice(seed);
  Change change;
  change.nRanks = 2 + static_cast<int>(dice() % 5);
  change.deed = static_cast<Deed>(dice() % 3);
  change.nNew = change.deed == Deed::Grow ? 1 + static_cast<int>(dice() % 2) : 0;
  change.victim = static_cast<int>(dice() % static_cast<uint64_t>(change.nRanks));
  change.colors = 1 + static_cast<int>(dice() % 2);
  change.diesUs = static_cast<int>(dice() % (dice() % 2 == 0 ? 3'000 : 15'000));
  return change;
}

bool names(const std::string& text, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    if (at + name.size() == text.size() || std::isdigit(text[at + name.size()]) == 0) return true;
  return false;
}

/// "" if the call failed because of the victim.
std::string blamesVictim(const Change& change, tuttiResult_t result, tuttiComm_t comm, Seen& seen) {
  const std::string text = tuttiGetLastError(comm);
  if (result != tuttiRemoteError || !names(text, change.victim)) return "gave " + std::to_string(result) + ": " + text;
  seen.errors.fetch_add(1);
  const int64_t took = nowUs() - seen.diedUs.load();
  for (int64_t most = seen.slowestUs; took > most && !seen.slowestUs.compare_exchange_weak(most, took);) {
  }
  return "";
}

/// Splits until the victim has died.  A child's ranks have other numbers than the parent's.
std::string splitAll(const Change& change, int rank, tuttiComm_t comm, Seen& seen) {
  for (;;) {
    tuttiComm_t child = nullptr;
    const tuttiResult_t result = tuttiCommSplit(comm, rank % change.colors, -rank, &child, nullptr);
    if (result != tuttiSuccess) return blamesVictim(change, result, comm, seen);
    (void)tuttiCommDestroy(child);
  }
}

std::string growOnce(const Change& change, int rank, tuttiComm_t comm, const tuttiUniqueId& id, Seen& seen) {
  tuttiComm_t child = nullptr;
  const int root = change.victim == 0 ? 1 : 0;  // else nobody could tell the new ranks
  const tuttiResult_t result =
      tuttiCommGrow(comm, change.nRanks + change.nNew, rank == root ? &id : nullptr, -1, &child, nullptr);
  if (result != tuttiSuccess) return blamesVictim(change, result, comm, seen);
  (void)tuttiBarrier(child, nullptr);
  return failed(tuttiCommAbort(child), "abort of the child");
}

/// Shrinks until a sum over just those that live.
std::string goOn(const Change& change, tuttiComm_t comm, bool shrinksFirst) {
  for (const int64_t began = nowUs();;) {
    int sum = 1;
    const tuttiResult_t result =
        shrinksFirst ? tuttiInvalidUsage : tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, nullptr);
    if (result == tuttiSuccess && sum == change.nRanks - 1) return failed(tuttiCommDestroy(comm), "destroy", comm);
    if (nowUs() - began > int64_t{kDeadlineMs} * 1000) return "it goes on with " + std::to_string(sum) + " ranks";
    if (result == tuttiSuccess) continue;
    shrinksFirst = false;
    tuttiComm_t rest = nullptr;
    RANK_TRY(tuttiCommShrink(comm, nullptr, 0, &rest, nullptr, TUTTI_SHRINK_ABORT));
    RANK_TRY(tuttiCommAbort(comm));
    comm = rest;
  }
}

std::string oldRank(const Change& change, int rank, const tuttiUniqueId& first, const tuttiUniqueId& second,
                    Seen& seen) {
  tuttiComm_t comm = nullptr;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kDeadlineMs;
  RANK_TRY(tuttiCommInitRankConfig(&comm, change.nRanks, first, rank, &config));
  (void)tuttiBarrier(comm, nullptr);  // one that is through may die while others leave this
  if (rank == change.victim) {
    std::thread([&change, &seen] {
      std::this_thread::sleep_for(std::chrono::microseconds(change.diesUs));
      seen.diedUs = nowUs();
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }
  const int64_t began = nowUs();
  std::string why;
  if (change.deed == Deed::Split) why = splitAll(change, rank, comm, seen);
  if (change.deed == Deed::Grow) why = growOnce(change, rank, comm, second, seen);
  if (why.empty()) why = goOn(change, comm, change.deed == Deed::Shrink);
  if (rank == change.victim) std::this_thread::sleep_for(std::chrono::seconds(30));  // it dies soon, whatever it saw
  const int64_t tookMs = (nowUs() - began) / 1000;
  return why.empty() && tookMs > kMostOfAllMs ? "it took " + std::to_string(tookMs) + " ms" : why;
}

/// Comes to a grown communicator, or hears that it does not come to be.
std::string newRank(const Change& change, int rank, const tuttiUniqueId& id) {
  tuttiComm_t comm = nullptr;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kDeadlineMs;
  const int64_t began = nowUs();
  const tuttiResult_t result = tuttiCommGrow(nullptr, change.nRanks + change.nNew, &id, rank, &comm, &config);
  if (result == tuttiSuccess) {
    (void)tuttiBarrier(comm, nullptr);
    RANK_TRY(tuttiCommAbort(comm));
  } else if (result != tuttiRemoteError) {
    return failed(result, "grow");
  }
  RANK_CHECK(nowUs() - began < int64_t{kMostOfAllMs} * 1000);
  return "";
}

/// Makes the change among processes; "" or what is wrong.
std::string run(const Change& change, Seen& seen) {
  const std::vector<int> ends = onProcesses(change.nRanks + change.nNew, [&](int rank, const UniqueIds& ids) {
    return rank < change.nRanks ? oldRank(change, rank, ids[0], ids[1], seen) : newRank(change, rank, ids[1]);
  });
  return unlessEnded(ends, [&](int rank) { return rank == change.victim; });
}

}  // namespace

TEST_CASE("a rank is killed at any moment of a split, grow or shrink, and the others name it and go on", "[thorough]") {
  constexpr int kLimitMs = 15'000;
  void* shared = ::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  Seen& seen = *new (shared) Seen;
  const int64_t began = nowUs();
  int rounds = 0;
  for (const uint64_t seed : tutti::testSeeds(1, kThorough ? 200 : 30)) {
    CAPTURE(seed);
    CHECK(run(changeOf(seed), seen) == "");
    ++rounds;
    if (nowUs() - began > int64_t{kLimitMs} * 1000) break;
  }
  std::printf("%d rounds, %d errors, the last %.1f ms after the death\n", rounds, seen.errors.load(),
              static_cast<double>(seen.slowestUs.load()) / 1000);
  if (rounds > 10) CHECK(seen.errors > rounds / 4);
  ::munmap(shared, sizeof(Seen));
}
