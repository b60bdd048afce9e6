// One clock for all hosts, and what goes into timelines and pickles.
#include "tools/trace/timeline.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/recorder/canned.hpp"
#include "tools/trace/simulated.hpp"
#include "tools/trace/torch_records.hpp"

using namespace tutti;
using namespace tutti::test;
using namespace tutti::trace;

namespace {

Job jobOf(const std::vector<CannedRank>& ranks) {
  std::vector<RankTrace> traces;
  for (const CannedRank& rank : ranks) traces.push_back(rank.trace());
  Result<Job> job = makeJob(std::move(traces));
  REQUIRE(job.status().message() == "");
  return std::move(*job);
}

}  // namespace

TEST_CASE("clocks of hosts are brought together by the calls that all ranks wait in") {
  constexpr int64_t kAhead = 5'000'000'000;  // the second host's clock
  CannedRank here(0, 2, 1, 7), there(1, 2, 1, 8);
  there.header().wallNs = 123;  // wall clocks that are wrong do not matter
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t at = 1'000'000 * i;
    const bool even = i % 2 == 0;  // each comes last in turn, 500 ns before all leave
    here.collective(Collective::AllReduce, 4, even ? at : at + 1000, at + 1500);
    there.collective(Collective::AllReduce, 4, kAhead + (even ? at + 1000 : at), kAhead + at + 1500);
  }
  const Job job = jobOf({here, there});
  CHECK(job.offsetNs.at(7) == 0);
  CHECK(std::abs(job.offsetNs.at(8) + kAhead) <= 500);
  CHECK(job.errorNs.at(8) == 500);
}

TEST_CASE("without such calls the wall clocks have to do") {
  CannedRank here(0, 2, 1, 7), there(1, 2, 1, 8);
  here.header().wallNs = 1000;
  there.header().wallNs = 400;
  here.message(true, 1, 0, 4, 100, 200);
  there.message(false, 0, 0, 4, 700, 900);
  const Job job = jobOf({here, there});
  CHECK(job.offsetNs.at(8) == -600);
  CHECK(job.errorNs.at(8) == -1);
}

TEST_CASE("a timeline is JSON with every call, also those that are not over, and the simulated ones") {
  std::vector<CannedRank> ranks = {CannedRank(0, 2), CannedRank(1, 2)};
  for (CannedRank& rank : ranks)
    rank.collective(Collective::AllReduce, 1024, 1000, 9000).collective(Collective::Barrier, 0, 10'000, 0);
  ranks[0].message(true, 1, 0, 4, 2000, 3000);
  const Job job = jobOf(ranks);
  const Result<Simulated> simulated = simulateCalls(job, "nodes 2; machine core:1 nic:1x1");
  REQUIRE(simulated.status().message() == "");
  CHECK(simulated->calls.size() == 1);
  CHECK(simulated->leftOut == 1);  // there is no barrier by a ring
  const nlohmann::json events = nlohmann::json::parse(timeline(job, simulated->calls)).at("traceEvents");
  int collectives = 0, messages = 0, fromSimulator = 0;
  for (const nlohmann::json& event : events) {
    const std::string kind = event.value("cat", "");
    if (kind == "message") ++messages;
    if (kind == "simulated") ++fromSimulator;
    if (kind != "collective") continue;
    ++collectives;
    if (event.at("name") == "AllReduce") {
      CHECK(event.at("ts") == 0.0);
      CHECK(event.at("dur") == 8.0);
      CHECK(event.at("args").at("algorithm") == "ring");
    } else {
      CHECK(event.at("args").at("state") == "not over");
      CHECK(event.at("dur") == Approx(999'990.0));
    }
  }
  CHECK(collectives == 4);
  CHECK(messages == 2);  // begin and end
  CHECK(fromSimulator == 1);
  CHECK(simulateCalls(job, "nodes 3; machine core:1 nic:1x1").status().code() == tuttiInvalidUsage);
}

TEST_CASE("every rank of the largest communicator has a file for PyTorch") {
  const Job job = jobOf({CannedRank(0, 3).collective(Collective::AllReduce, 4, 10, 20),
                         CannedRank(2, 3).collective(Collective::AllReduce, 4, 10, 0),
                         CannedRank(0, 1, 2).collective(Collective::Barrier, 0, 30, 40)});
  const std::vector<TorchFile> files = torchFiles(job);
  REQUIRE(files.size() == 2);
  CHECK(files[0].rank == 0);
  CHECK(files[1].rank == 2);
  CHECK(files[0].pickle.substr(0, 2) == "\x80\x02");
  CHECK(files[0].pickle.find("nccl:barrier") != std::string::npos);
  CHECK(files[1].pickle.find("nccl:barrier") == std::string::npos);
}
