// Split, shrink and grow where ranks differ or die.  Nobody may wait until the deadline.
#include <catch2/catch.hpp>
#include <chrono>

#include "tests/support/deadline.hpp"
#include "tests/support/ranks.hpp"

using namespace tutti::test;

namespace {

using Clock = std::chrono::steady_clock;

struct MadeCall {
  enum { Split, SplitNothing, Shrink, Grow } kind;
  int nRanks = 0;  // of Grow
};

tuttiResult_t make(const MadeCall& call, tuttiComm_t comm, tuttiComm_t* child) {
  switch (call.kind) {
    case MadeCall::Split: return tuttiCommSplit(comm, 0, 0, child, nullptr);
    case MadeCall::SplitNothing: return tuttiCommSplit(comm, TUTTI_SPLIT_NOCOLOR, 0, child, nullptr);
    case MadeCall::Shrink: return tuttiCommShrink(comm, nullptr, 0, child, nullptr, TUTTI_SHRINK_DEFAULT);
    case MadeCall::Grow: break;
  }
  return tuttiCommGrow(comm, call.nRanks, nullptr, -1, child, nullptr);
}

/// Rank 1 of three makes another call than the others; then all split.
std::string differ(const MadeCall& odd, const MadeCall& usual, const std::string& sentence) {
  return onThreads(3, [&](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t comm = nullptr, child = nullptr;
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeoutMs = kDeadlineMs;
    RANK_TRY(tuttiCommInitRankConfig(&comm, 3, id, rank, &config));
    const auto began = Clock::now();
    RANK_CHECK(make(rank == 1 ? odd : usual, comm, &child) == tuttiInvalidUsage);
    RANK_CHECK(Clock::now() - began < std::chrono::milliseconds(kMostMs));
    RANK_CHECK(child == nullptr);
    const std::string said = tuttiGetLastError(comm);
    if (said.find(sentence) == std::string::npos) return said;
    RANK_TRY(tuttiCommSplit(comm, 0, rank, &child, nullptr));  // nothing is broken
    RANK_TRY(tuttiBarrier(child, nullptr));
    RANK_TRY(tuttiCommDestroy(child));
    return failed(tuttiCommDestroy(comm), "destroy");
  });
}

}  // namespace

TEST_CASE("ranks that make different calls all hear at once which, and the communicator goes on") {
  CHECK(differ({MadeCall::Shrink}, {MadeCall::Split},
               "rank 0 called tuttiCommSplit but rank 1 called tuttiCommShrink") == "");
  CHECK(differ({MadeCall::Split}, {MadeCall::Shrink},
               "rank 0 called tuttiCommShrink but rank 1 called tuttiCommSplit") == "");
  CHECK(differ({MadeCall::Grow, 5}, {MadeCall::SplitNothing},
               "rank 0 called tuttiCommSplit but rank 1 called tuttiCommGrow to 5 ranks") == "");
  CHECK(differ({MadeCall::Grow, 5}, {MadeCall::Grow, 4},
               "rank 0 called tuttiCommGrow to 4 ranks but rank 1 called tuttiCommGrow to 5 ranks") == "");
  CHECK(differ({MadeCall::Grow, 4}, {MadeCall::Grow, 4}, "no rank passed a uniqueId") == "");
}

TEST_CASE("who stays away from a split is named, and what it does instead") {
  const std::string said = onThreads(3, [](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t comm = nullptr, child = nullptr;
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeoutMs = 700;
    RANK_TRY(tuttiCommInitRankConfig(&comm, 3, id, rank, &config));
    if (rank == 2) {
      int value = 0;
      RANK_CHECK(tuttiRecv(&value, 1, tuttiInt32, 0, comm, nullptr) != tuttiSuccess);
    } else {
      RANK_CHECK(tuttiCommSplit(comm, 0, 0, &child, nullptr) != tuttiSuccess);
      const std::string why = tuttiGetLastError(comm);
      if (why.find("rank 2") == std::string::npos && why.find("rank 0 waits for rank") == std::string::npos) return why;
    }
    return failed(tuttiCommAbort(comm), "abort");
  });
  CHECK(said == "");
}

TEST_CASE("after ranks were excluded from a communicator it cannot be split, and says so") {
  const std::string said = onThreads(3, [](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t comm = nullptr, rest = nullptr, child = nullptr;
    const int gone[] = {2};
    RANK_TRY(tuttiCommInitRank(&comm, 3, id, rank));
    if (rank < 2) {
      RANK_TRY(tuttiCommShrink(comm, gone, 1, &rest, nullptr, TUTTI_SHRINK_DEFAULT));
      RANK_CHECK(tuttiCommSplit(comm, 0, 0, &child, nullptr) == tuttiRemoteError);
      RANK_CHECK(std::string(tuttiGetLastError(comm)).find("rank 2 of this communicator") != std::string::npos);
      RANK_TRY(tuttiCommSplit(rest, 0, 0, &child, nullptr));
      for (const tuttiComm_t each : {child, rest}) RANK_TRY(tuttiCommDestroy(each));
    }
    return failed(tuttiCommDestroy(comm), "destroy");  // the parent goes on otherwise
  });
  CHECK(said == "");
}
