// What happens to communicators that were split from one that a rank ends on purpose.  Deadlines are off: who is not
// told waits for ever.

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <thread>

#include "src/comm/handle.hpp"
#include "tests/support/processes.hpp"

using namespace tutti::test;

namespace {

tuttiConfig_t endless() {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = 0;
  return config;
}

/// "" if the call failed because rank `culprit` has ended the communicator above.
std::string endedBy(int culprit, tuttiResult_t result, tuttiComm_t comm) {
  const std::string text = tuttiGetLastError(comm), name = "rank " + std::to_string(culprit) + " has ";
  const bool said = text.find(name) != std::string::npos && text.find("split from") != std::string::npos;
  if (result == tuttiRemoteError && said) return "";
  return "gave " + std::to_string(result) + ": " + text;
}

std::string sumOver(tuttiComm_t comm) {
  int one = 1, n = 0;
  RANK_TRY(tuttiCommCount(comm, &n));
  RANK_TRY(tuttiAllReduce(&one, &one, 1, tuttiInt32, tuttiSum, comm, nullptr));
  RANK_CHECK(one == n);
  return "";
}

std::string end(tuttiComm_t comm, bool revokes) {
  if (revokes) RANK_TRY(tuttiCommRevoke(comm, 0));
  if (!revokes) RANK_TRY(tuttiCommAbort(comm));
  return "";
}

/// Of four ranks the last ends the world; of the others two wait for each other in communicators that it is not in,
/// and one waits for it in a child's child.
std::string familyEnds(int rank, tuttiComm_t world, bool revokes) {
  tuttiComm_t half = nullptr, again = nullptr;
  RANK_TRY(tuttiCommSplit(world, rank / 2, rank, &half, nullptr));
  RANK_TRY(tuttiCommSplit(half, 0, rank, &again, nullptr));
  (void)tuttiBarrier(world, nullptr);  // all are split; rank 3 may end the world while others leave this
  std::string why;
  if (rank == 3) why = end(world, revokes);
  char byte = 0;
  tuttiComm_t waits = rank == 1 ? world : rank == 0 ? half : again;  // rank 0 for rank 1, which waits for rank 3
  const tuttiResult_t result = rank == 1   ? tuttiBarrier(world, nullptr)
                               : rank == 0 ? tuttiRecv(&byte, 1, tuttiInt8, 1, half, nullptr)
                                           : tuttiBarrier(again, nullptr);
  if (why.empty() && rank == 1 && result == tuttiSuccess) why = "the world's barrier was not left";
  if (why.empty() && rank != 1) why = endedBy(3, result, waits);
  if (why.empty()) why = endedBy(3, tuttiBarrier(half, nullptr), half);
  if (why.empty()) why = endedBy(3, tuttiBarrier(again, nullptr), again);
  const tuttiResult_t split = tuttiCommSplit(half, 0, 0, &waits, nullptr);
  if (why.empty() && split != tuttiRemoteError)
    why = tutti::cat("a split of a communicator that has ended gives ", split);
  for (const tuttiComm_t comm : {again, half}) RANK_TRY(tuttiCommAbort(comm));
  if (rank != 3 || revokes) RANK_TRY(tuttiCommAbort(world));
  return why;
}

std::string joinAndEnd(int rank, const tuttiUniqueId& id, bool revokes) {
  tuttiComm_t world = nullptr;
  tuttiConfig_t config = endless();
  RANK_TRY(tuttiCommInitRankConfig(&world, 4, id, rank, &config));
  return familyEnds(rank, world, revokes);
}

}  // namespace

TEST_CASE("who hears that a communicator has ended finds those ended that were split from it") {
  const auto oldest = std::make_shared<tuttiComm>(), middle = std::make_shared<tuttiComm>(),
             youngest = std::make_shared<tuttiComm>();
  oldest->abortState.adopt(middle.get());
  middle->abortState.adopt(youngest.get());
  std::string order;
  const auto tell = [&](tuttiComm& comm, const char* name, const tuttiComm* child) {
    comm.abortState.onEnd([&order, name, child] {
      order += name;
      if (child != nullptr && !child->abortState.ended()) order += " before its child";
    });
  };
  tell(*oldest, "oldest", middle.get());
  tell(*middle, "middle, ", youngest.get());
  tell(*youngest, "youngest, ", nullptr);
  oldest->abortState.endFamily(
      tutti::remoteError(tutti::ErrorCode::Aborted, "rank 1 has aborted the communicator; go on"));
  CHECK(order == "youngest, middle, oldest");
  CHECK(youngest->abortState.failure().message().find("that this one was split from") != std::string::npos);
}

TEST_CASE("who aborts or revokes ends all that was split from the communicator, on every rank") {
  for (const bool revokes : {false, true}) {
    CAPTURE(revokes);
    CHECK(onThreads(4, [&](int rank, const tuttiUniqueId& id) { return joinAndEnd(rank, id, revokes); }) == "");
  }
}

TEST_CASE("so it is among processes") {
  const std::vector<int> ends =
      onProcesses(4, [](int rank, const UniqueIds& ids) { return joinAndEnd(rank, ids[0], rank == 0); });
  CHECK(unlessEnded(ends, [](int) { return false; }) == "");
}

TEST_CASE("a child without shared threads, one of a finalized parent, and one that was shrunk go on") {
  const auto body = [](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t world = nullptr, alone = nullptr, child = nullptr, rest = nullptr, dependent = nullptr;
    tuttiConfig_t config = endless(), apart = TUTTI_CONFIG_INITIALIZER;
    apart.splitShare = 0;
    RANK_TRY(tuttiCommInitRankConfig(&world, 2, id, rank, &config));
    RANK_TRY(tuttiCommSplit(world, 0, rank, &alone, &apart));
    RANK_TRY(tuttiCommSplit(world, 0, rank, &dependent, nullptr));
    RANK_TRY(tuttiCommSplit(alone, 0, rank, &child, nullptr));
    if (rank == 0) RANK_TRY(tuttiCommRevoke(world, 0));
    RANK_CHECK(tuttiBarrier(dependent, nullptr) == tuttiRemoteError);
    RANK_TRY(tuttiCommShrink(world, nullptr, 0, &rest, nullptr, TUTTI_SHRINK_ABORT));
    for (const tuttiComm_t comm : {world, dependent}) RANK_TRY(tuttiCommAbort(comm));
    for (const tuttiComm_t comm : {rest, alone, child}) {
      if (const std::string why = sumOver(comm); !why.empty()) return why;
    }
    RANK_TRY(tuttiCommFinalize(alone));
    RANK_TRY(tuttiCommAbort(alone));
    if (const std::string why = sumOver(child); !why.empty()) return why;
    for (const tuttiComm_t comm : {child, rest}) RANK_TRY(tuttiCommDestroy(comm));
    return "";
  };
  CHECK(onThreads(2, body) == "");
}

TEST_CASE("a child that all ranks destroy has ended well, however soon one of them aborts the parent") {
  const auto body = [](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t world = nullptr;
    tuttiConfig_t config = endless();
    RANK_TRY(tuttiCommInitRankConfig(&world, 3, id, rank, &config));
    for (int round = 0; round < 4; ++round) {
      tuttiComm_t parent = nullptr, child = nullptr;
      RANK_TRY(tuttiCommSplit(world, 0, rank, &parent, nullptr));
      RANK_TRY(tuttiCommSplit(parent, 0, rank, &child, nullptr));
      RANK_TRY(tuttiCommDestroy(child));
      RANK_TRY(tuttiCommAbort(parent));
    }
    return failed(tuttiCommDestroy(world), "destroy");
  };
  CHECK(onThreads(3, body) == "");
}

TEST_CASE("a child that is being joined ends with its parent") {
  const auto body = [](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t world = nullptr, parent = nullptr, child = nullptr;
    tuttiConfig_t config = endless();
    RANK_TRY(tuttiCommInitRankConfig(&world, 2, id, rank, &config));
    RANK_TRY(tuttiCommSplit(world, 0, rank, &parent, nullptr));
    if (rank == 0) {
      const tuttiResult_t result = tuttiCommSplit(parent, 0, rank, &child, nullptr);  // the other does not come
      RANK_CHECK(child == nullptr);
      const std::string why = endedBy(1, result, parent);
      if (!why.empty()) return why;
    } else {
      RANK_TRY(tuttiCommRevoke(world, 0));
    }
    for (const tuttiComm_t comm : {parent, world}) RANK_TRY(tuttiCommAbort(comm));
    return "";
  };
  CHECK(onThreads(2, body) == "");
}
