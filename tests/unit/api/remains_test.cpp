// What survivors can do: a rank kills itself at a random moment of a call of any kind, the others shrink the
// communicator and repeat the call on what is left, from inputs that are as they were; then they split that, and grow
// it to its old size by a new rank.  A failing seed is printed; TUTTI_TEST_SEED=<seed> runs it alone.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/deadline.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"

using namespace tutti::test;

namespace {

constexpr int kKindsOfCalls = 8;

struct Death {
  int nRanks = 3, victim = 0, kind = 0, diesUs = 0;
  size_t count = 0;
};

Death deathOf(uint64_t seed) {
  std::mt19937_64 dice(seed);
  const auto below = [&](uint64_t n) { return static_cast<int>(dice() % n); };
  Death death;
  death.nRanks = 3 + below(4);
  death.victim = below(static_cast<uint64_t>(death.nRanks));
  death.kind = static_cast<int>(seed % kKindsOfCalls);
  death.count = below(3) == 0 ? 60'000 : 1 + static_cast<size_t>(below(700));
  death.diesUs = below(below(2) == 0 ? 2'000 : 20'000);
  return death;
}

/// The ranks of the communicator as it began that are in one, by their rank in it.
using Ranks = std::vector<int>;

int32_t valueOf(int oldRank, size_t i) { return oldRank * 1000 + static_cast<int32_t>(i % 97); }

std::vector<int32_t> inputOf(int oldRank, size_t n) {
  std::vector<int32_t> input(n);
  for (size_t i = 0; i < n; ++i) input[i] = valueOf(oldRank, i);
  return input;
}

int32_t sumOf(const Ranks& ranks, size_t i) {
  return std::accumulate(ranks.begin(), ranks.end(), 0, [&](int32_t sum, int rank) { return sum + valueOf(rank, i); });
}

tuttiResult_t call(int kind, const std::vector<int32_t>& in, std::vector<int32_t>* out, size_t n, tuttiComm_t comm) {
  switch (kind) {
    case 0: return tuttiAllReduce(in.data(), out->data(), n, tuttiInt32, tuttiSum, comm, nullptr);
    case 1: return tuttiAllGather(in.data(), out->data(), n, tuttiInt32, comm, nullptr);
    case 2: return tuttiReduceScatter(in.data(), out->data(), n, tuttiInt32, tuttiSum, comm, nullptr);
    case 3: return tuttiAllToAll(in.data(), out->data(), n, tuttiInt32, comm, nullptr);
    case 4: return tuttiBroadcast(in.data(), out->data(), n, tuttiInt32, 0, comm, nullptr);
    case 5: return tuttiReduce(in.data(), out->data(), n, tuttiInt32, tuttiSum, 0, comm, nullptr);
    case 6: return tuttiGather(in.data(), out->data(), n, tuttiInt32, 0, comm, nullptr);
    default: return tuttiScatter(in.data(), out->data(), n, tuttiInt32, 0, comm, nullptr);
  }
}

/// What the call leaves at `i` of the output on ranks[me]; n: elements of a block.
int32_t expected(int kind, const Ranks& ranks, size_t me, size_t i, size_t n) {
  switch (kind) {
    case 0:
    case 5: return sumOf(ranks, i);
    case 1:
    case 6: return valueOf(ranks[i / n], i % n);
    case 2: return sumOf(ranks, me * n + i);
    case 3: return valueOf(ranks[i / n], me * n + i % n);
    case 4: return valueOf(ranks[0], i);
    default: return valueOf(ranks[0], me * n + i);
  }
}

/// The call on these ranks; "" if it went well and its result is right.
std::string checkCall(int kind, const std::vector<int32_t>& in, size_t n, const Ranks& ranks, tuttiComm_t comm) {
  int rank = -1, nRanks = 0;
  RANK_TRY(tuttiCommUserRank(comm, &rank));
  RANK_TRY(tuttiCommCount(comm, &nRanks));
  RANK_CHECK(nRanks == static_cast<int>(ranks.size()));
  const auto me = static_cast<size_t>(rank);
  std::vector<int32_t> out(n * ranks.size(), -1);
  RANK_TRY(call(kind, in, &out, n, comm));
  if ((kind == 5 || kind == 6) && rank != 0) return "";  // nothing comes here
  const size_t blocks = kind == 1 || kind == 3 || kind == 6 ? ranks.size() : 1;
  for (size_t i = 0; i < n * blocks; ++i) {
    const int32_t right = expected(kind, ranks, me, i, n);
    if (out[i] != right)
      return "kind " + std::to_string(kind) + " has " + std::to_string(out[i]) + " at " + std::to_string(i) + ", not " +
             std::to_string(right);
  }
  return "";
}

/// The call again and again, until it fails on this rank.
std::string failIn(const Death& death, const std::vector<int32_t>& in, tuttiComm_t comm) {
  std::vector<int32_t> out(in.size());
  for (;;) {
    const tuttiResult_t result = call(death.kind, in, &out, death.count, comm);
    if (result == tuttiRemoteError) return "";
    if (result != tuttiSuccess) return failed(result, "the call that a rank dies in", comm);
  }
}

std::string splitRemains(const Death& death, const std::vector<int32_t>& in, const Ranks& rest, tuttiComm_t comm) {
  int rank = -1;
  RANK_TRY(tuttiCommUserRank(comm, &rank));
  Ranks half;
  for (size_t r = static_cast<size_t>(rank % 2); r < rest.size(); r += 2) half.push_back(rest[r]);
  tuttiComm_t child = nullptr;
  RANK_TRY(tuttiCommSplit(comm, rank % 2, rank, &child, nullptr));
  std::string why = checkCall(death.kind, in, death.count, half, child);
  if (why.empty()) why = failed(tuttiCommDestroy(child), "destroy of the half", child);
  return why;
}

/// All calls on as many ranks as there were, of which the last is new.
std::string checkGrown(const Death& death, const std::vector<int32_t>& in, const Ranks& ranks, tuttiComm_t comm) {
  for (int kind = 0; kind < kKindsOfCalls; ++kind) {
    if (std::string why = checkCall(kind, in, death.count, ranks, comm); !why.empty()) return "grown: " + why;
  }
  return failed(tuttiCommDestroy(comm), "destroy of the grown one", comm);
}

std::string oldRank(const Death& death, int rank, const tuttiUniqueId& first, const tuttiUniqueId& second) {
  const auto nRanks = static_cast<size_t>(death.nRanks);
  const std::vector<int32_t> in = inputOf(rank, death.count * nRanks);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kDeadlineMs;
  tuttiComm_t comm = nullptr, rest = nullptr, grown = nullptr;
  RANK_TRY(tuttiCommInitRankConfig(&comm, death.nRanks, first, rank, &config));
  (void)tuttiBarrier(comm, nullptr);  // one that is through may die while others leave this
  if (rank == death.victim) {
    std::thread([us = death.diesUs] {
      std::this_thread::sleep_for(std::chrono::microseconds(us));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }
  if (std::string why = failIn(death, in, comm); !why.empty()) return why;
  RANK_CHECK(in == inputOf(rank, in.size()));
  RANK_TRY(tuttiCommShrink(comm, nullptr, 0, &rest, nullptr, TUTTI_SHRINK_ABORT));
  RANK_TRY(tuttiCommAbort(comm));
  Ranks ranks;
  for (int r = 0; r < death.nRanks; ++r)
    if (r != death.victim) ranks.push_back(r);
  if (std::string why = checkCall(death.kind, in, death.count, ranks, rest); !why.empty()) return "repeated: " + why;
  if (std::string why = splitRemains(death, in, ranks, rest); !why.empty()) return "split: " + why;
  const tuttiUniqueId* id = rank == ranks[0] ? &second : nullptr;
  RANK_TRY(tuttiCommGrow(rest, death.nRanks, id, -1, &grown, nullptr));
  RANK_TRY(tuttiCommDestroy(rest));
  ranks.push_back(death.nRanks);
  return checkGrown(death, in, ranks, grown);
}

std::string newRank(const Death& death, const tuttiUniqueId& id) {
  const std::vector<int32_t> in = inputOf(death.nRanks, death.count * static_cast<size_t>(death.nRanks));
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kDeadlineMs;
  tuttiComm_t comm = nullptr;
  RANK_TRY(tuttiCommGrow(nullptr, death.nRanks, &id, death.nRanks - 1, &comm, &config));
  Ranks ranks;
  for (int r = 0; r <= death.nRanks; ++r)
    if (r != death.victim) ranks.push_back(r);
  return checkGrown(death, in, ranks, comm);
}

}  // namespace

TEST_CASE("a call is repeated on what is left from inputs that are as they were, which then is split and grown",
          "[thorough]") {
  for (const uint64_t seed : tutti::testSeeds(1, kThorough ? 32 : kKindsOfCalls)) {
    const Death death = deathOf(seed);
    CAPTURE(seed, death.nRanks, death.victim, death.kind, death.count);
    const std::vector<int> ends = onProcesses(death.nRanks + 1, [&](int rank, const UniqueIds& ids) {
      return rank < death.nRanks ? oldRank(death, rank, ids[0], ids[1]) : newRank(death, ids[1]);
    });
    CHECK(unlessEnded(ends, [&](int rank) { return rank == death.victim; }) == "");
  }
}
