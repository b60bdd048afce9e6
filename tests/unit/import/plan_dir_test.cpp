// TUTTI_PLAN_DIR through the C API: plans of MSCCL and MSCCL++ run, chosen by name, with the results that are right.
#include <catch2/catch.hpp>

#include "src/comm/foreign_plans.hpp"
#include "tests/support/collective_check.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"
#include "tests/unit/import/plans.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// All ranks in place, none, and every second one; several sizes.
[[maybe_unused]] std::string sums(int nRanks, std::initializer_list<size_t> counts) {
  return onRanks(nRanks, [counts](const Rank& r) {
    for (const size_t count : counts) {
      for (const bool inPlace : {false, true, r.rank % 2 == 0}) {
        if (std::string why = checkAllReduce(r, {.count = count, .inPlace = inPlace}); !why.empty()) return why;
      }
    }
    return std::string();
  });
}

/// What estimate says of an AllReduce, on rank 0.
[[maybe_unused]] std::string chosen(int nRanks, size_t count) {
  std::string name;
  const std::string complaint = onRanks(nRanks, [&](const Rank& r) {
    tuttiEstimate_t estimate = TUTTI_ESTIMATE_INITIALIZER;
    RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, count, tuttiFloat32, tuttiSum, 0, &estimate));
    if (r.rank == 0) name = estimate.algorithm;
    return std::string();
  });
  return complaint.empty() ? name : complaint;
}

}  // namespace

#if TUTTI_HAVE_PUGIXML && TUTTI_HAVE_NLOHMANN_JSON
TEST_CASE("plans of both formats run by name, in place and out of place, whichever they were written for") {
  const TempFolder folder;
  folder.write("away.xml", ringXml(3));          // out of place, from 1024 bytes
  folder.write("loads.json", loadStoreJson(3));  // in place, 16 bytes to 1 MiB
  folder.write("packets.json", packetsJson(3));
  folder.write("others.xml", ringXml(4));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  for (const char* name : {"away", "loads", "packets"}) {
    const Variable algorithm("TUTTI_ALGO", std::string("allreduce:") + name);
    CAPTURE(name);
    CHECK(sums(3, {256, 1000, 3 * 4096, 99'999}) == "");
  }
  const Variable algorithm("TUTTI_ALGO", "away");
  CHECK(chosen(3, 1000) == "ring");  // the plan's own name, which an algorithm has too
  const std::string small = sums(3, {2});
  CAPTURE(small);
  CHECK(small.find("no plan 'away' of TUTTI_PLAN_DIR serves allreduce of 8 bytes") != std::string::npos);
}

TEST_CASE("a plan may be chosen or not, and is asked for by its own name too") {
  const TempFolder folder;
  folder.write("loads.json", loadStoreJson(3));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  CHECK(sums(3, {1, 1000, 70'000}) == "");
  const Variable algorithm("TUTTI_ALGO", "own");  // the name in the plan
  CHECK(chosen(3, 1000) == "own");
  CHECK(sums(3, {1000}) == "");
}

TEST_CASE("names that neither the algorithms nor the folder have are refused with what there is") {
  const TempFolder folder;
  folder.write("loads.json", loadStoreJson(3));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  const Variable algorithm("TUTTI_ALGO", "allreduce:lodas");
  const std::string complaints = sums(3, {1000});
  CAPTURE(complaints);
  CHECK(complaints.find("and as plans of TUTTI_PLAN_DIR own, loads") != std::string::npos);
}

TEST_CASE("a folder that is not there, and a plan that is wrong") {
  const Variable off("TUTTI_CALIBRATION", "off");
  {
    const Variable plans("TUTTI_PLAN_DIR", "/nonexistent/plans");
    const std::string complaints = sums(2, {8});
    CAPTURE(complaints);
    CHECK(complaints.find("TUTTI_PLAN_DIR=/nonexistent/plans: cannot read the folder of plans") != std::string::npos);
  }
  const TempFolder folder;
  folder.write("wrong.xml", replaced(ringXml(2), "coll=\"allreduce\"", "coll=\"reduce\""));
  folder.write("right.xml", ringXml(2));
  const Variable plans("TUTTI_PLAN_DIR", folder.path());
  const auto read = ForeignPlans::read(2);
  REQUIRE(read.ok());
  REQUIRE(read->refused().size() == 1);
  CHECK(read->refused()[0].find("wrong.xml") != std::string::npos);
  const Variable algorithm("TUTTI_ALGO", "allreduce:right");
  CHECK(sums(2, {1000}) == "");
}
#elif !TUTTI_HAVE_PUGIXML && !TUTTI_HAVE_NLOHMANN_JSON
TEST_CASE("without the libraries a folder of plans is an error that says so") {
  const TempFolder folder;
  const Variable plans("TUTTI_PLAN_DIR", folder.path());
  const auto read = ForeignPlans::read(2);
  CHECK(read.status().code() == tuttiInvalidUsage);
  CHECK(read.status().message().find("reads no plans") != std::string::npos);
}
#endif

TEST_CASE("ranks that have read other plans are named") {
  CHECK(comparePlanReports({"a", "a", "a"}).ok());
  const Status differ =
      comparePlanReports({"2 plans with fingerprint 1", "2 plans with fingerprint 1", "1 plans with fingerprint 2"});
  CHECK(differ.code() == tuttiInvalidUsage);
  CHECK(differ.message().find("rank 2 has 1 plans") != std::string::npos);
  CHECK(comparePlanReports({"a", "error no folder"}).message() == "rank 1: no folder");
}
