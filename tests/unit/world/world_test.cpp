// Whole jobs in the seeded world: ranks meet, call collectives on real data, and something happens to them: delays,
// deaths, stops, links that break, a pair that is cut off.  TUTTI_TEST_SEED=<seed> (or 1-100000) runs those seeds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>

#include "src/base/clock.hpp"
#include "src/base/text.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/world/data_job.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// Everything about a job is drawn from its seed.
DataPlan draw(uint64_t seed, int nRanks) {
  SimWorld dice(seed * 31 + 7);
  const auto rank = [&] { return static_cast<int>(dice.randomBetween(0, nRanks - 1)); };
  const auto when = [&] { return dice.randomBetween(0, 6 * kMs); };
  DataPlan plan{.seed = seed, .nRanks = nRanks};
  plan.nCalls = static_cast<int>(dice.randomBetween(1, 4));
  plan.mostDelayNs = dice.random() % 2 == 0 ? 50'000 : 1 * kMs;
  const auto crashes = dice.random() % 3;
  for (uint64_t i = 0; i < crashes; ++i) plan.crashes.emplace_back(rank(), when());
  if (dice.random() % 4 == 0) plan.stops.emplace_back(rank(), when());
  if (dice.random() % 4 == 0) plan.breaksPerMillion = 1000;
  if (dice.random() % 3 == 0) plan.resumes = true, plan.breaksPerMillion = 20'000;
  for (const auto& [crashed, ns] : plan.crashes) {
    if (dice.random() % 2 == 0) plan.restarts.emplace_back(crashed, ns + when());
  }
  const int a = rank(), b = rank();
  if (dice.random() % 8 == 0 && a != b) plan.cut = {{a, b}};
  return plan;
}

std::string describe(const DataPlan& plan) {
  std::string text = cat("seed ", plan.seed, ": ", plan.nRanks, " ranks, ", plan.nCalls, " calls");
  for (const auto& [rank, ns] : plan.crashes) text += cat(", rank ", rank, " dies at ", ns / 1000, " us");
  for (const auto& [rank, ns] : plan.stops) text += cat(", rank ", rank, " stops at ", ns / 1000, " us");
  for (const auto& [rank, ns] : plan.restarts) text += cat(", rank ", rank, " is there again at ", ns / 1000, " us");
  if (plan.cut) text += cat(", ", plan.cut->first, " and ", plan.cut->second, " cut off");
  return cat(text, ", ", plan.breaksPerMillion, " of a million messages break their ",
             plan.resumes ? "connection, which is made again" : "link");
}

struct Totals {
  long jobs = 0, right = 0, errors = 0, shrinks = 0, refused = 0, grown = 0;
  uint64_t breaks = 0;
  void add(const DataJob& job) {
    ++jobs;
    right += job.nRight();
    errors += job.nErrors();
    shrinks += job.nShrinks();
    refused += job.nRefused();
    grown += job.nGrown();
    breaks += job.nBreaks();
  }
};

void runJobs(const std::vector<uint64_t>& seeds, const std::function<int(uint64_t)>& nRanks, Totals* totals) {
  for (const uint64_t seed : seeds) {
    const DataPlan plan = draw(seed, nRanks(seed));
    DataJob job(plan);
    if (const std::string why = job.run(); !why.empty()) FAIL_CHECK(describe(plan) << ": " << why);
    totals->add(job);
  }
}

}  // namespace

TEST_CASE("who got success holds the result, all others an error in time, and those who live go on", "[thorough]") {
  Totals totals;
  runJobs(
      testSeeds(1, kThorough ? 1000 : 60), [](uint64_t seed) { return 8 + static_cast<int>(seed % 9); }, &totals);
  std::cout << totals.jobs << " jobs: " << totals.right << " right results, " << totals.errors << " errors, "
            << totals.shrinks << " shrinks of a rank, " << totals.grown << " ranks that came back, " << totals.breaks
            << " connections made again, " << totals.refused << " ranks that could not go on\n";
  CHECK(totals.right > 0);
  if (totals.jobs > 50) CHECK(totals.errors > 0);
  if (totals.jobs > 50) CHECK(totals.shrinks > 0);
  if (totals.jobs > 50) CHECK(totals.grown > 0);
  if (totals.jobs > 50) CHECK(totals.breaks > 0);
}

TEST_CASE("jobs of many ranks hold to the same", "[thorough]") {
  if (std::getenv("TUTTI_TEST_SEED") != nullptr) return;
  Totals totals;
  for (const int n : kThorough ? std::vector<int>{64, 128, 257, 1024} : std::vector<int>{33}) {
    runJobs(
        {static_cast<uint64_t>(n), static_cast<uint64_t>(n) + 1}, [n](uint64_t) { return n; }, &totals);
  }
  CHECK(totals.right > 0);
}

TEST_CASE("a seed gives one history") {
  const DataPlan plan = draw(5, 12);
  DataJob first(plan), second(plan);
  CHECK(first.run() == second.run());
  CHECK(first.traceHash() == second.traceHash());
  CHECK(first.endNs() == second.endNs());
}
