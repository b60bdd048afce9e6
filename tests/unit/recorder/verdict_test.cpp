// Verdicts on traces made by hand.
#include "tools/trace/verdict.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/recorder/canned.hpp"

using namespace tutti;
using namespace tutti::test;
using namespace tutti::trace;

namespace {

constexpr Collective kAllReduce = Collective::AllReduce;

Verdict verdictOn(const std::vector<CannedRank>& ranks) {
  std::vector<RankTrace> traces;
  for (const CannedRank& rank : ranks) traces.push_back(rank.trace());
  Result<Job> job = makeJob(std::move(traces));
  REQUIRE(job.status().message() == "");
  return judge(*job, job->communicators.front());
}

bool says(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

CannedRank done(int rank, int nRanks, int calls = 3) {
  CannedRank canned(rank, nRanks);
  for (int i = 0; i < calls; ++i) canned.collective(kAllReduce, 4, 1000 * i + 10 * rank, 1000 * i + 500);
  return canned;
}

}  // namespace

TEST_CASE("calls that are over on all ranks are well") {
  const Verdict verdict = verdictOn({done(0, 3), done(1, 3), done(2, 3)});
  CHECK(verdict.finding == Finding::Well);
  CHECK(verdict.culprits.empty());
  CHECK(verdict.waits.empty());
  CHECK(verdict.summary.find("9 calls") != std::string::npos);
}

TEST_CASE("the rank that has not entered the call is behind, and who waits for whom is told") {
  const Verdict verdict = verdictOn({done(0, 3).collective(kAllReduce, 4, 4000, 0).waitsFor(2),
                                     done(1, 3).collective(kAllReduce, 4, 4000, -900'004'000), done(2, 3)});
  CHECK(verdict.finding == Finding::Behind);
  CHECK(verdict.culprits == std::vector<int>{2});
  CHECK(verdict.summary.find("rank 2 is behind: ranks 0 and 1 wait in AllReduce number 4") == 0);
  CHECK(says(verdict.waits, "rank 2: its newest call is AllReduce number 3 (count 4, float, sum), which is over"));
  CHECK(says(verdict.waits, "rank 0 waits for rank 2 in AllReduce number 4"));
  CHECK(says(verdict.waits, "rank 1 waited in AllReduce number 4 (count 4, float, sum) for 0.900 s"));
}

TEST_CASE("the earliest call in which a rank waits is the one that tells") {
  const Verdict verdict =
      verdictOn({done(0, 3).collective(kAllReduce, 4, 4000, 0), done(2, 3, 4).collective(kAllReduce, 4, 5000, 0)});
  CHECK(verdict.finding == Finding::Missing);
  CHECK(verdict.culprits == std::vector<int>{1});
  CHECK(verdict.summary.find("rank 0 waits in AllReduce number 4") == 0);
}

TEST_CASE("a rank without a file is missing where others wait, and no trouble where none does") {
  const Verdict waiting =
      verdictOn({done(0, 3).collective(kAllReduce, 4, 4000, 0), done(2, 3).collective(kAllReduce, 4, 4000, 0)});
  CHECK(waiting.finding == Finding::Missing);
  CHECK(waiting.culprits == std::vector<int>{1});
  CHECK(verdictOn({done(0, 3), done(2, 3)}).finding == Finding::Well);
}

TEST_CASE("a communicator that failed between calls did so for whoever ended without a word") {
  CannedRank heard = done(0, 3), killed = done(1, 3), also = done(2, 3);
  heard.header().failed = also.header().failed = 1;
  std::strcpy(heard.header().reason, "rank 1: its process has ended");
  killed.header().writtenNs = 0;
  const Verdict verdict = verdictOn({heard, killed, also});
  CHECK(verdict.finding == Finding::Failed);
  CHECK(verdict.culprits == std::vector<int>{1});
  CHECK(says(verdict.waits, "rank 0 wrote its file because: rank 1: its process has ended"));
  CHECK(verdictOn({heard, also}).culprits == std::vector<int>{1});
}

TEST_CASE("who heard of an end before making the call is not behind") {
  CannedRank heard = done(0, 3), killed = done(1, 3), waits = done(2, 3);
  waits.collective(kAllReduce, 4, 4000, -5000);
  heard.header().failed = waits.header().failed = 1;
  CHECK(verdictOn({heard, waits}).finding == Finding::Missing);
  CHECK(verdictOn({heard, waits}).culprits == std::vector<int>{1});
  killed.header().writtenNs = 0;
  CHECK(verdictOn({heard, killed, waits}).finding == Finding::Behind);
  CHECK(verdictOn({heard, killed, waits}).culprits == std::vector<int>{1});
}

TEST_CASE("the odd one out differs, both of two, and the first difference counts") {
  const auto with = [](int rank, int nRanks, uint64_t count, uint32_t root) {
    return done(rank, nRanks, 1).collective(Collective::Broadcast, count, 2000, 0, root);
  };
  const Verdict odd = verdictOn({with(0, 3, 4, 0), with(1, 3, 5, 0), with(2, 3, 4, 0)});
  CHECK(odd.finding == Finding::Different);
  CHECK(odd.culprits == std::vector<int>{1});
  CHECK(odd.summary.find("rank 1 made Broadcast number 2 (count 5") != std::string::npos);
  const Verdict root = verdictOn({with(0, 2, 4, 0), with(1, 2, 4, 1)});
  CHECK(root.finding == Finding::Different);
  CHECK(root.culprits == std::vector<int>{0, 1});
  CHECK(root.summary.find("root 1") != std::string::npos);
}

TEST_CASE("messages: sizes that differ, an end that never begins, and a cycle") {
  const Verdict sizes =
      verdictOn({CannedRank(0, 2).message(true, 1, 0, 8, 10, 20), CannedRank(1, 2).message(false, 0, 0, 9, 10, -30)});
  CHECK(sizes.finding == Finding::Unmatched);
  CHECK(sizes.culprits == std::vector<int>{0, 1});
  CHECK(sizes.summary.find("rank 0 sends (count 8, float), rank 1 receives (count 9, float)") != std::string::npos);
  const Verdict never = verdictOn({CannedRank(0, 3).message(false, 1, 0, 8, 10, 0),
                                   CannedRank(1, 3).message(false, 2, 0, 8, 10, 0), CannedRank(2, 3)});
  CHECK(never.finding == Finding::Unmatched);
  CHECK(never.culprits == std::vector<int>{2});
  CHECK(says(never.waits, "rank 0 is in Recv number 0 from rank 1 (count 8, float), which has not begun its end"));
  const Verdict cycle =
      verdictOn({CannedRank(0, 3).message(false, 1, 0, 8, 10, 0), CannedRank(1, 3).message(false, 2, 0, 8, 10, 0),
                 CannedRank(2, 3).message(false, 0, 0, 8, 10, 0)});
  CHECK(cycle.culprits == std::vector<int>{0, 1, 2});
  CHECK(cycle.summary.find("in a cycle: 0 for 1, 1 for 2, 2 for 0") != std::string::npos);
}

TEST_CASE("who comes last to most calls is late") {
  CannedRank first(0, 2), second(1, 2);
  for (int i = 0; i < 20; ++i) {
    first.collective(kAllReduce, 4, 10'000'000 * i, 10'000'000 * i + 3'000'000);
    second.collective(kAllReduce, 4, 10'000'000 * i + 2'000'000, 10'000'000 * i + 3'000'000);
  }
  CHECK(verdictOn({first, second}).late == "rank 1 came last to 20 of 20 calls, 2.000 ms after the first on average");
}

TEST_CASE("sequences count on beyond their 24 bits") {
  const auto around = [](int rank, int64_t end) {
    return CannedRank(rank, 2)
        .skipTo(0xfffffd)
        .collective(kAllReduce, 4, 10, 20)
        .collective(kAllReduce, 4, 30, 40)
        .collective(kAllReduce, 4, 50, 60)
        .collective(kAllReduce, 4, 70, end);
  };
  CHECK(verdictOn({around(0, 80), around(1, 80)}).finding == Finding::Well);
  const Verdict open = verdictOn({around(0, 0), around(1, 0)});
  CHECK(open.finding == Finding::Waiting);
  CHECK(open.summary.find("AllReduce number 1 ") != std::string::npos);
}
