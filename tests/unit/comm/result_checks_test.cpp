// Results that ranks compare: who is named, and that a bit which flips in memory that ranks share is never success.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>

#include "src/comm/handle.hpp"
#include "src/comm/result_checks.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/session/unique_id.hpp"
#include "src/control/wire.hpp"
#include "tests/support/mailbox.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/thorough.hpp"
#include "tests/support/variable.hpp"
#include "transport/self/entry.hpp"

namespace tutti::result_checks {
namespace {

constexpr const TransportEntry* kMailboxes[] = {&kSelfEntry, &test::kMailboxEntry};
constexpr int kRanks = 3;

Blobs told(const std::vector<std::vector<uint32_t>>& byRank) {
  Blobs blobs;
  for (const std::vector<uint32_t>& parts : byRank) {
    Writer w;
    for (const uint32_t part : parts) w.u32(part);
    blobs.push_back(w.take());
  }
  return blobs;
}

std::string verdict(const std::vector<std::vector<uint32_t>>& byRank, const std::vector<int>& owners) {
  return compareResults(told(byRank), owners, "AllReduce number 7 (8 bytes)").message();
}

/// One rank's communicator over mailboxes alone.
struct OverMailboxes {
  tuttiComm_t comm = nullptr;
  Status joined;

  OverMailboxes(int rank, const tuttiUniqueId& id) {
    CommSettings parent;
    parent.table = kMailboxes;
    const Result<CommSettings> settings = resolveSettings(nullptr, &parent);
    joined = settings.status();
    if (!joined.ok()) return;
    const JoinFunction join = [=, settings = *settings](AbortState* abortState) -> Result<std::unique_ptr<Comm>> {
      TUTTI_ASSIGN(std::shared_ptr<Session> session, Session::create(Reach::Host));
      TUTTI_ASSIGN(const MeetingPlace place, decodeUniqueId(id));
      JoinRequest request{.commId = place.commId, .secret = place.secret, .rank = rank, .nRanks = kRanks};
      request.self = session->controlAddress();
      request.rendezvous = place.controlAddress;
      return Comm::join(session, std::move(request), settings, abortState);
    };
    joined = startJoin(newHandle(rank, kRanks, *settings), join, &comm);
  }
};

/// What three ranks get of this call while message number `damaged` changes; what is wrong with that, and how often a
/// rank had an error.
std::string outcome(Collective collective, int64_t damaged, std::atomic<int>* errors) {
  constexpr size_t kCount = 40;
  std::array<std::array<int, kCount * kRanks>, kRanks> results{};
  std::atomic<int> good{0};
  std::string said = test::onThreads(kRanks, [&](int rank, const tuttiUniqueId& id) -> std::string {
    OverMailboxes own(rank, id);
    if (!own.joined.ok()) return own.joined.message();
    std::array<int, kCount> in{};
    in.fill(rank + 1);
    int* const out = results[static_cast<size_t>(rank)].data();
    // Nobody sends before all are ready for the damage.
    RANK_TRY(tuttiBarrier(own.comm, nullptr));
    if (rank == 0) test::damageMailbox(damaged);
    tuttiResult_t result = tuttiSuccess;
    switch (collective) {
      case Collective::AllGather: result = tuttiAllGather(in.data(), out, kCount, tuttiInt, own.comm, nullptr); break;
      case Collective::Broadcast:
        result = tuttiBroadcast(in.data(), out, kCount, tuttiInt, 1, own.comm, nullptr);
        break;
      default: result = tuttiAllReduce(in.data(), out, kCount, tuttiInt, tuttiSum, own.comm, nullptr);
    }
    std::string why = result == tuttiSuccess ? "" : tuttiGetLastError(own.comm);
    result == tuttiSuccess ? ++good : ++*errors;
    tuttiCommAbort(own.comm);
    const bool named = why.find(" number ") != std::string::npos || why.find("rank ") != std::string::npos;
    return why.empty() || named ? "" : "an error without a name: " + why;
  });
  test::damageMailbox(-1);
  if (!said.empty()) return said;
  const bool same = results[0] == results[1] && results[1] == results[2];
  return same || good == 0 ? "" : cat("success on ", good.load(), " ranks, whose results differ");
}

}  // namespace

TEST_CASE("the rank whose result differs is named: by the owner of the data, or by most others") {
  CHECK(verdict({{1}, {1}, {1}}, {-1}).empty());
  CHECK(verdict({{1}, {2}, {1}}, {-1})
            .find("the result of AllReduce number 7 (8 bytes) on rank 1 is not that of rank 0 and most others") == 0);
  CHECK(verdict({{9}, {2}, {2}}, {-1}).find("the result of AllReduce number 7 (8 bytes) on rank 0 is not") == 0);
  CHECK(verdict({{1}, {2}, {3}, {1}, {1}}, {-1}).find(cat("on ranks ", listRanks({1, 2}), " is not that of rank 0")) !=
        std::string::npos);
  CHECK(verdict({{1}, {2}}, {-1}).find("nobody can tell who is right") != std::string::npos);
  CHECK(verdict({{1}, {1}, {2}, {2}}, {-1}).find("nobody can tell who is right") != std::string::npos);
  // The root of a broadcast has it right, though it stands alone.
  CHECK(verdict({{1}, {2}, {2}}, {0})
            .find(cat("on ranks ", listRanks({1, 2}), " is not that of rank 0, whose data it is")) !=
        std::string::npos);
  CHECK(verdict({{1, 5}, {1, 6}, {1, 6}}, {0, 1}).find("on rank 0 is not that of rank 1, whose data it is") !=
        std::string::npos);
  CHECK(compareResults(Blobs{{"1234", "123", "1234"}}, {-1}, "x").message() ==
        "a malformed checksum of the result of x");
}

TEST_CASE("a flipped bit in memory that ranks share is an error by name where results differ, wherever it is",
          "[thorough]") {
  const test::Variable every("TUTTI_CHECK_RESULTS", "1");
  const test::Variable builtIn("TUTTI_CALIBRATION", "off");
  std::atomic<int> errors{0};
  for (const Collective collective : {Collective::AllGather, Collective::Broadcast, Collective::AllReduce}) {
    for (int64_t damaged = 0; damaged < (test::kThorough ? 6 : 2); ++damaged) {
      CAPTURE(static_cast<int>(collective), damaged);
      CHECK(outcome(collective, damaged, &errors) == "");
    }
  }
  CHECK(errors > 4);
}

TEST_CASE("results that are right pass, and only every k-th call is compared") {
  const test::Variable every("TUTTI_CHECK_RESULTS", "3");
  CHECK(test::onThreads(kRanks, [&](int rank, const tuttiUniqueId& id) -> std::string {
          tuttiComm_t comm = nullptr;
          RANK_TRY(tuttiCommInitRank(&comm, kRanks, id, rank));
          for (int call = 1; call <= 20; ++call) {
            int sum = rank * call;
            RANK_TRY(tuttiAllReduce(&sum, &sum, 1, tuttiInt, tuttiSum, comm, nullptr));
            RANK_CHECK(sum == 3 * call);
          }
          RANK_TRY(tuttiCommDestroy(comm));
          return "";
        }) == "");
}

}  // namespace tutti::result_checks
