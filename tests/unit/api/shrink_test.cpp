// Survivors shrink, while more ranks die: processes that kill themselves at random moments, before, in and behind the
// first shrink.  Nobody may wait until the deadline, and all that live end with each other.
// A failing seed is printed; TUTTI_TEST_SEED=<seed> runs it alone.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/support/deadline.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"

using namespace tutti::test;

namespace {

using Clock = std::chrono::steady_clock;

struct Deaths {
  int nRanks = 0;
  std::vector<int> diesMs;                 // after all have joined; -1: it lives
  std::vector<std::vector<int>> excludes;  // by rank: what it tells its first shrink
  int nLeft() const { return static_cast<int>(std::count(diesMs.begin(), diesMs.end(), -1)); }
};

Deaths deathsOf(uint64_t seed) {
  std::mt19937_64 dice(seed);
  Deaths deaths;
  deaths.nRanks = 2 + static_cast<int>(dice() % 5);
  const auto n = static_cast<size_t>(deaths.nRanks);
  deaths.diesMs.assign(n, -1);
  deaths.excludes.resize(n);
  const size_t lives = dice() % n, dies = (lives + 1 + dice() % (n - 1)) % n;
  std::vector<int> doomed;
  for (size_t r = 0; r < n; ++r) {
    if (r == lives || (r != dies && dice() % 2 == 0)) continue;
    deaths.diesMs[r] = dice() % 3 == 0 ? 0 : static_cast<int>(dice() % 40);
    doomed.push_back(static_cast<int>(r));
  }
  for (size_t r = 0; r < n; ++r)
    for (const int rank : doomed)
      if (deaths.diesMs[r] < 0 && dice() % 3 == 0) deaths.excludes[r].push_back(rank);
  return deaths;
}

/// A rank that dies soon whatever it is told.
std::string awaitDeath(std::string why) {
  std::this_thread::sleep_for(std::chrono::seconds(30));
  return "still alive: " + why;
}

/// Collectives and, when they fail, shrinks, until a sum over just those that live.
std::string goOn(const Deaths& deaths, int rank, const tuttiUniqueId& id) {
  tuttiComm_t comm = nullptr;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kDeadlineMs;
  RANK_TRY(tuttiCommInitRankConfig(&comm, deaths.nRanks, id, rank, &config));
  (void)tuttiBarrier(comm, nullptr);  // one that is through may die while others leave this
  const int diesMs = deaths.diesMs[static_cast<size_t>(rank)];
  if (diesMs >= 0) {
    std::thread([diesMs] {
      std::this_thread::sleep_for(std::chrono::milliseconds(diesMs));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }
  const auto began = Clock::now();
  std::vector<int> excludes = deaths.excludes[static_cast<size_t>(rank)];
  for (;;) {
    int sum = 1;
    const tuttiResult_t result = tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, nullptr);
    // One that is about to die may find that those who excluded it have finished and left, and go on alone.
    if (result == tuttiSuccess && sum == deaths.nLeft()) {
      if (diesMs >= 0) return awaitDeath("it went on without those that excluded it");
      break;
    }
    if (Clock::now() - began > std::chrono::milliseconds(kDeadlineMs))
      return "it goes on with " + std::to_string(sum) + " ranks";
    if (result == tuttiSuccess) continue;
    tuttiComm_t rest = nullptr;
    const std::string why = failed(
        tuttiCommShrink(comm, excludes.data(), static_cast<int>(excludes.size()), &rest, nullptr, TUTTI_SHRINK_ABORT),
        "shrink", comm);
    if (!why.empty()) return diesMs < 0 ? why : awaitDeath(why);
    RANK_TRY(tuttiCommAbort(comm));
    comm = rest;
    excludes.clear();
  }
  const auto tookMs = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began).count();
  if (tookMs > kMostMs) return "it took " + std::to_string(tookMs) + " ms";
  return failed(tuttiCommDestroy(comm), "destroy", comm);
}

/// Has ranks die like that; "" or what is wrong.
std::string run(const Deaths& deaths) {
  const std::vector<int> ends =
      onProcesses(deaths.nRanks, [&](int rank, const UniqueIds& ids) { return goOn(deaths, rank, ids[0]); });
  return unlessEnded(ends, [&](int rank) { return deaths.diesMs[static_cast<size_t>(rank)] >= 0; });
}

}  // namespace

TEST_CASE("ranks die before, in and behind a shrink, and those that live go on with each other", "[thorough]") {
  for (const uint64_t seed : tutti::testSeeds(1, kThorough ? 60 : 8)) {
    CAPTURE(seed);
    CHECK(run(deathsOf(seed)) == "");
  }
}

TEST_CASE("one heard of one death and tries again, the other has heard of both") {
  // Rank 0 shrinks at once and loses rank 2 in it; rank 1 comes when both are dead.
  Deaths deaths{.nRanks = 4, .diesMs = {-1, -1, 300, 0}, .excludes = {{3}, {2, 3}, {3}, {}}};
  CHECK(run(deaths) == "");
}

TEST_CASE("a living rank that others exclude is told, and those who name others agree all the same") {
  const std::string said = onThreads(4, [](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t comm = nullptr, rest = nullptr;
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeoutMs = kDeadlineMs;
    RANK_TRY(tuttiCommInitRankConfig(&comm, 4, id, rank, &config));
    (void)tuttiBarrier(comm, nullptr);
    const int excluded[] = {rank == 0 ? 2 : 3};
    const auto began = Clock::now();
    const tuttiResult_t result = tuttiCommShrink(comm, excluded, rank < 2 ? 1 : 0, &rest, nullptr, TUTTI_SHRINK_ABORT);
    RANK_CHECK(Clock::now() - began < std::chrono::milliseconds(kMostMs));
    if (rank < 2) {
      int count = 0;
      RANK_CHECK(failed(result, "shrink", comm).empty());
      RANK_TRY(tuttiCommCount(rest, &count));
      RANK_CHECK(count == 2);
      RANK_TRY(tuttiBarrier(rest, nullptr));
      RANK_TRY(tuttiCommDestroy(rest));
    } else {
      RANK_CHECK(result == tuttiRemoteError);
      RANK_CHECK(rest == nullptr);
      RANK_CHECK(std::string(tuttiGetLastError(comm)).find("excluded") != std::string::npos);
    }
    RANK_TRY(tuttiCommAbort(comm));
    return "";
  });
  CHECK(said == "");
}

TEST_CASE("a rank that lives and does not come is named at the deadline, and shrinking again without it works") {
  const std::string said = onThreads(3, [](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t comm = nullptr, rest = nullptr;
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeoutMs = 500;
    RANK_TRY(tuttiCommInitRankConfig(&comm, 3, id, rank, &config));
    (void)tuttiBarrier(comm, nullptr);
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::seconds(2));
    } else {
      const int gone[] = {2};
      const tuttiResult_t first = tuttiCommShrink(comm, nullptr, 0, &rest, nullptr, TUTTI_SHRINK_ABORT);
      if (first != tuttiSuccess) {  // the other's second attempt may have come before this one's deadline
        RANK_CHECK(first == tuttiTimeout);
        RANK_CHECK(std::string(tuttiGetLastError(comm)).find("survivors") != std::string::npos);
        RANK_TRY(tuttiCommSetTimeout(comm, kDeadlineMs));
        RANK_TRY(tuttiCommShrink(comm, gone, 1, &rest, nullptr, TUTTI_SHRINK_ABORT));
      }
      RANK_TRY(tuttiCommDestroy(rest));
    }
    RANK_TRY(tuttiCommAbort(comm));
    return "";
  });
  CHECK(said == "");
}
