// Split, shrink, grow, groups over several communicators, blocking = 0, abort, operators, reproducible sums.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tests/support/collective_check.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/variable.hpp"

using namespace tutti::test;

TEST_CASE("split numbers ranks by key, then by rank, and leaves out those without a color") {
  CHECK(onRanks(6, [](const Rank& r) {
          tuttiComm_t child = nullptr;
          const int color = r.rank == 5 ? TUTTI_SPLIT_NOCOLOR : r.rank % 2;
          RANK_TRY(tuttiCommSplit(r.comm, color, -r.rank, &child, nullptr));
          if (color == TUTTI_SPLIT_NOCOLOR) {
            RANK_CHECK(child == nullptr);
            return std::string();
          }
          int rank = -1, count = 0;
          RANK_TRY(tuttiCommUserRank(child, &rank));
          RANK_TRY(tuttiCommCount(child, &count));
          RANK_CHECK(count == (color == 0 ? 3 : 2));
          RANK_CHECK(rank == (color == 0 ? (4 - r.rank) / 2 : (3 - r.rank) / 2));
          const std::string why = checkEverything({rank, count, child}, {.count = 100});
          RANK_TRY(tuttiCommDestroy(child));
          return why;
        }) == "");
}

TEST_CASE("survivors shrink a revoked communicator and go on") {
  CHECK(onRanks(4, [](const Rank& r) {
          (void)tuttiBarrier(r.comm, nullptr);  // all have joined; a faster rank may revoke while we leave it
          if (r.rank == 2) return std::string("leaves");
          tuttiComm_t child = nullptr;
          const int excluded[] = {2};
          RANK_TRY(tuttiCommShrink(r.comm, excluded, 1, &child, nullptr, TUTTI_SHRINK_ABORT));
          int rank = -1;
          RANK_TRY(tuttiCommUserRank(child, &rank));
          RANK_CHECK(rank == (r.rank < 2 ? r.rank : r.rank - 1));
          const std::string why = checkEverything({rank, 3, child}, {.count = 77});
          RANK_TRY(tuttiCommDestroy(child));
          return why.empty() ? std::string("done") : why;
        }) == "rank 0: done\nrank 1: done\nrank 2: leaves\nrank 3: done\n");
}

TEST_CASE("a communicator grows by ranks that come later") {
  tuttiUniqueId later;
  REQUIRE(tuttiGetUniqueId(&later) == tuttiSuccess);
  std::string newcomer;
  std::thread joins([&] {
    tuttiComm_t comm = nullptr;
    newcomer = failed(tuttiCommGrow(nullptr, 3, &later, 2, &comm, nullptr), "grow");
    if (newcomer.empty()) newcomer = checkEverything({2, 3, comm}, {.count = 33});
    if (newcomer.empty()) newcomer = failed(tuttiCommDestroy(comm), "destroy");
  });
  const std::string old = onRanks(2, [&](const Rank& r) {
    tuttiComm_t grown = nullptr;
    RANK_TRY(tuttiCommGrow(r.comm, 3, r.rank == 0 ? &later : nullptr, -1, &grown, nullptr));
    std::string why = checkEverything({r.rank, 3, grown}, {.count = 33});
    RANK_TRY(tuttiCommDestroy(grown));
    return why;
  });
  joins.join();
  CHECK(old == "");
  CHECK(newcomer == "");
}

TEST_CASE("one thread drives several communicators in one group") {
  constexpr int kRanks = 4;
  tuttiComm_t comms[kRanks];
  REQUIRE(tuttiCommInitAll(comms, kRanks, nullptr) == tuttiSuccess);
  float in[kRanks], out[kRanks] = {};
  for (const char* round : {"first", "again"}) {
    CAPTURE(round);
    REQUIRE(tuttiGroupStart() == tuttiSuccess);
    for (int r = 0; r < kRanks; ++r) {
      in[r] = static_cast<float>(r + 1);
      REQUIRE(tuttiAllReduce(&in[r], &out[r], 1, tuttiFloat32, tuttiSum, comms[r], nullptr) == tuttiSuccess);
    }
    REQUIRE(tuttiGroupEnd() == tuttiSuccess);
    for (const float value : out) CHECK(value == 10);
  }
  REQUIRE(tuttiGroupStart() == tuttiSuccess);
  REQUIRE(tuttiGroupEnd() == tuttiSuccess);
  for (tuttiComm_t comm : comms) CHECK(tuttiCommAbort(comm) == tuttiSuccess);
}

TEST_CASE("blocking = 0 answers at once and is polled") {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  tuttiUniqueId id;
  REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
  tuttiComm_t comms[2] = {};
  const auto settle = [](tuttiComm_t comm) {
    tuttiResult_t state = tuttiInProgress;
    while (state == tuttiInProgress && tuttiCommGetAsyncError(comm, &state) == tuttiSuccess) std::this_thread::yield();
    return state;
  };
  for (int r = 0; r < 2; ++r) REQUIRE(tuttiCommInitRankConfig(&comms[r], 2, id, r, &config) == tuttiInProgress);
  for (tuttiComm_t comm : comms) REQUIRE(settle(comm) == tuttiSuccess);
  float x[2] = {1, 2}, y[2] = {};
  for (int r = 0; r < 2; ++r) {
    REQUIRE(tuttiAllReduce(&x[r], &y[r], 1, tuttiFloat32, tuttiSum, comms[r], nullptr) == tuttiInProgress);
  }
  for (tuttiComm_t comm : comms) REQUIRE(settle(comm) == tuttiSuccess);
  CHECK(y[0] == 3);
  CHECK(y[1] == 3);
  for (tuttiComm_t comm : comms) CHECK(tuttiCommAbort(comm) == tuttiSuccess);
}

TEST_CASE("made operators: scaled sums, and functions that do not commute") {
  CHECK(onRanks(5, [](const Rank& r) {
          tuttiRedOp_t scaled, last;
          float factor = static_cast<float>(r.rank);
          RANK_TRY(tuttiRedOpCreatePreMulSum(&scaled, &factor, tuttiFloat32, tuttiScalarHostImmediate, r.comm));
          std::vector<float> x(100, 2), y(100);
          RANK_TRY(tuttiAllReduce(x.data(), y.data(), x.size(), tuttiFloat32, scaled, r.comm, nullptr));
          for (const float value : y) RANK_CHECK(value == 20);
          // Decimal digits put side by side: 1, 2, 3 -> 123.  Associative, not commutative.
          const auto append = [](const void* in, void* inout, size_t count, tuttiDataType_t, void*) {
            for (size_t i = 0; i < count; ++i) {
              int64_t left, right;
              std::memcpy(&left, static_cast<const char*>(in) + 8 * i, 8);
              std::memcpy(&right, static_cast<char*>(inout) + 8 * i, 8);
              int64_t shift = 1;
              while (shift <= right) shift *= 10;
              left = left * shift + right;
              std::memcpy(static_cast<char*>(inout) + 8 * i, &left, 8);
            }
          };
          RANK_TRY(tuttiRedOpCreate(&last, append, 0, nullptr, r.comm));
          std::vector<int64_t> digit(50, r.rank + 1);
          RANK_TRY(tuttiAllReduce(digit.data(), digit.data(), digit.size(), tuttiInt64, last, r.comm, nullptr));
          for (const int64_t value : digit) RANK_CHECK(value == 12345);
          RANK_TRY(tuttiRedOpDestroy(last, r.comm));
          RANK_TRY(tuttiRedOpDestroy(scaled, r.comm));
          return std::string();
        }) == "");
}

TEST_CASE("reproducible collectives work in place and out of place") {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.reproducible = 1;
  for (const int nRanks : {2, 3, 5}) {
    for (const bool inPlace : {false, true}) {
      CAPTURE(nRanks, inPlace);
      CHECK(onRanks(
                nRanks,
                [&](const Rank& r) { return checkEverything(r, {.count = 100, .inPlace = inPlace, .root = 1}); },
                &config) == "");
    }
  }
}

TEST_CASE("reproducible sums have the same bits for every algorithm and transport") {
  const Variable strict("TUTTI_ALGO_STRICT", "1");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.reproducible = 1;
  const int nRanks = GENERATE(2, 3, 5);
  std::vector<float> first;
  for (const char* transports : {"", "tcp,self"}) {
    for (const char* algorithm :
         {"ring", "oneshot", "twoshot", "tree", "recursivedoubling", "halvingdoubling", "circulant", "paramserver"}) {
      CAPTURE(nRanks, transports, algorithm);
      setenv("TUTTI_ALGO", (std::string("allreduce:") + algorithm).c_str(), 1);
      config.transports = transports;
      std::vector<float> result(3001);
      CHECK(onRanks(
                nRanks,
                [&](const Rank& r) {
                  std::vector<float> x(result.size());
                  for (size_t i = 0; i < x.size(); ++i) {
                    x[i] = std::ldexp(std::sin(static_cast<float>(i + 1) * static_cast<float>(r.rank + 3)),
                                      r.rank * 5 % 9);
                  }
                  RANK_TRY(tuttiAllReduce(x.data(), x.data(), x.size(), tuttiFloat32, tuttiSum, r.comm, nullptr));
                  if (r.rank == r.nRanks - 1) result = x;
                  return std::string();
                },
                &config) == "");
      if (first.empty()) first = result;
      CHECK(std::memcmp(first.data(), result.data(), first.size() * sizeof(float)) == 0);
    }
  }
  unsetenv("TUTTI_ALGO");
}

TEST_CASE("a forked child makes ids of its own, though its parent's rendezvous has ended") {
  const auto alone = [] {
    tuttiUniqueId id{};
    tuttiComm_t comm = nullptr;
    return tuttiGetUniqueId(&id) == tuttiSuccess && tuttiCommInitRank(&comm, 1, id, 0) == tuttiSuccess &&
           tuttiCommDestroy(comm) == tuttiSuccess;
  };
  for (int i = 0; i < 2; ++i) REQUIRE(alone());
  const pid_t child = tutti::test::forkWhenIdle();
  if (child == 0) {
    ::alarm(60);
    if (alone() && alone()) ::kill(::getpid(), SIGKILL);  // sanitizers count threads that _exit() leaves behind
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(tutti::test::wasKilled(status));
}
