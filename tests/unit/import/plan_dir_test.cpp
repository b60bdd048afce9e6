// TUTTI_PLAN_DIR through the C API: plans of MSCCL and MSCCL++ run, chosen by name, with the results that are right.
#include <catch2/catch.hpp>

#include "src/comm/foreign_plans.hpp"
#include "tests/support/collective_check.hpp"
#include "tests/support/said.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/thorough.hpp"
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
  const Variable strict("TUTTI_ALGO_STRICT", "1");
  for (const char* name : {"away", "loads", "packets"}) {
    const Variable algorithm("TUTTI_ALGO", std::string("allreduce:") + name);
    CAPTURE(name);
    CHECK(sums(3, {256, 1000, 3 * 4096, 99'999}) == "");
  }
  const Variable algorithm("TUTTI_ALGO", "away");
  CHECK(chosen(3, 1000) == "ring");  // the plan's own name, which an algorithm has too
}

TEST_CASE("a plan that does not fit is set aside, and rank 0 says so once of each reason; or it is refused") {
  const TempFolder folder;
  folder.write("away.xml", ringXml(3));
  folder.write("loads.json", loadStoreJson(3));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  const Variable algorithm("TUTTI_ALGO", "away");
  const auto job = [](const Rank& r) -> std::string {
    for (const size_t count : {2, 3, 255, 256, 2, 100}) {
      std::string why = checkAllReduce(r, {.count = count, .inPlace = r.rank == 1});
      if (why.empty()) why = checkAllGather(r, {.count = count});  // of which nothing is asked
      if (!why.empty()) return why;
    }
    return "";
  };
  {
    const Said said;
    CHECK(onRanks(3, job) == "");
    CHECK(said.times("does not serve") == 1);
    CHECK(said.times("rank 0: TUTTI_ALGO=away does not serve allreduce of 8 bytes on 3 ranks: it is for 1024 or more "
                     "bytes in all; chosen by cost: ") == 1);
  }
  const Variable strict("TUTTI_ALGO_STRICT", "1");
  const std::string why = onRanks(3, job);
  CAPTURE(why);
  CHECK(why.find("away does not serve allreduce of 8 bytes on 3 ranks: it is for 1024 or more bytes in all; these "
                 "would: ring, tree, ") != std::string::npos);
  CHECK((why.find(" own,") == std::string::npos && why.find(" own.") == std::string::npos));  // from 16 bytes on
}

TEST_CASE("the name of a plan for other ranks is no mistake: communicators that it does not fit go on") {
  const TempFolder folder;
  folder.write("loads.json", loadStoreJson(4));  // "own"
  folder.write("away.xml", ringXml(2));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  const std::string name = GENERATE("allreduce:own", "loads", "allreduce:loads");
  const Variable algorithm("TUTTI_ALGO", name);
  const std::string asked = name.substr(name.find(':') + 1);
  for (const int nRanks : {1, 2, 3, 5}) {
    CAPTURE(name, nRanks);
    {
      const Said said;
      CHECK(sums(nRanks, {1, 1000, 70'000}) == "");
      CHECK(said.times("does not serve") == 1);
      CHECK(said.times("TUTTI_ALGO=" + asked + " does not serve allreduce of 4 bytes on ") == 1);
      CHECK(said.times(": it is for 4 ranks; chosen by cost: ") == 1);
    }
    const Variable strict("TUTTI_ALGO_STRICT", "1");
    const std::string why = sums(nRanks, {1000});
    CAPTURE(why);
    CHECK(why.find("it is for 4 ranks; these would: ring, tree, ") != std::string::npos);
  }
  const Said said;
  CHECK(chosen(4, 1000) == "own");
  CHECK(sums(4, {4, 1000, 70'000}) == "");
  CHECK(said.times("does not serve") == 0);
}

TEST_CASE("groups of a job have what fits them: the plan or the planner's choice") {
  const TempFolder folder;
  folder.write("mine.xml", shoutXml(4));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  const Variable algorithm("TUTTI_ALGO", "allreduce:mine");
  const Said said;
  CHECK(onRanks(4, [](const Rank& r) -> std::string {
          tuttiEstimate_t estimate = TUTTI_ESTIMATE_INITIALIZER;
          RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, 1000, tuttiFloat32, tuttiSum, 0, &estimate));
          RANK_CHECK(std::string(estimate.algorithm) == "shout");
          for (const int groups : {2, 4}) {  // of two ranks, and of one
            tuttiComm_t part = nullptr;
            RANK_TRY(tuttiCommSplit(r.comm, r.rank % groups, r.rank, &part, nullptr));
            Rank mine{0, 0, part};
            RANK_TRY(tuttiCommUserRank(part, &mine.rank));
            RANK_TRY(tuttiCommCount(part, &mine.nRanks));
            if (std::string why = checkAllReduce(mine, {.count = 1000}); !why.empty()) return why;
            RANK_TRY(tuttiCommDestroy(part));
          }
          return checkAllReduce(r, {.count = 1000});
        }) == "");
  CHECK(said.times("TUTTI_ALGO=mine does not serve") == 6);  // by the first rank of each group
}

TEST_CASE("sums in rank order do not go by a plan, which has an order of its own") {
  const TempFolder folder;
  folder.write("loads.json", loadStoreJson(3));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  const Variable algorithm("TUTTI_ALGO", "allreduce:own"), reproducible("TUTTI_REPRODUCIBLE", "1");
  const Said said;
  CHECK(sums(3, {1000, 2000}) == "");
  CHECK(said.times("own does not serve allreduce of 4000 bytes on 3 ranks, operands in rank order: it has an order of "
                   "its own") == 1);
}

TEST_CASE("plans that cannot serve in place do so by a copy of the input", "[thorough]") {
  const int nRanks = GENERATE(2, 3, 5, 8);
  const std::string transports = GENERATE(std::string("shm,self"), std::string("tcp,self"));
  const std::string protocol = GENERATE(std::string(""), std::string("direct"));
  if (protocol == "direct" && transports != "shm,self") return;
  if (!kThorough && nRanks > 3) return;
  CAPTURE(nRanks, transports, protocol);
  const TempFolder folder;
  folder.write("shout.xml", shoutXml(nRanks));
  folder.write("cross.xml", crossXml(nRanks));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  const Variable algorithm("TUTTI_ALGO", "allreduce:shout,alltoall:cross"), strict("TUTTI_ALGO_STRICT", "1");
  const Variable allowed("TUTTI_TRANSPORTS", transports), forced("TUTTI_PROTO", protocol);
  REQUIRE(ForeignPlans::read(nRanks)->refused().empty());
  CHECK(onRanks(nRanks, [](const Rank& r) -> std::string {
          tuttiStream_t stream = nullptr;
          RANK_TRY(tuttiStreamCreate(&stream));
          for (const size_t count : {0, 1, 7, 1000, 4096, 99'999}) {
            for (const tuttiStream_t on : {tuttiStream_t(nullptr), stream}) {
              for (const int who : {0, 1, 2, 0}) {  // nobody, every second rank, all; again
                const CheckOptions o{.count = count,
                                     .inPlace = who == 2 || (who == 1 && r.rank % 2 == 0),
                                     .memory = count == 4096 ? test::Memory::Allocated : test::Memory::Plain,
                                     .stream = on};
                std::string why = checkAllReduce(r, o);
                if (why.empty()) why = checkAllToAll(r, o);
                if (!why.empty()) return std::to_string(count) + " elements, " + std::to_string(who) + ": " + why;
              }
            }
          }
          RANK_TRY(tuttiStreamDestroy(stream));
          return "";
        }) == "");
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

TEST_CASE("the name of a plan that is left out is refused with the reason") {
  const TempFolder folder;
  folder.write("wrong.xml", replaced(ringXml(2), "coll=\"allreduce\"", "coll=\"reduce\""));
  const Variable off("TUTTI_CALIBRATION", "off"), plans("TUTTI_PLAN_DIR", folder.path());
  const std::string name = GENERATE("wrong", "reduce:wrong");
  const Variable algorithm("TUTTI_ALGO", name);
  const std::string why = sums(2, {8});
  CAPTURE(why);
  CHECK(why.find("TUTTI_ALGO: the plan 'wrong' is left out: ") != std::string::npos);
  CHECK(why.find("cannot tell the root") != std::string::npos);
  // Among other ranks nobody has looked at it, and it is for none of their collectives.
  CHECK(sums(3, {8}) == "");
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

#if TUTTI_HAVE_PUGIXML
TEST_CASE("ranks tell each other of the plans that TUTTI_ALGO asks for, also of those for other ranks") {
  const TempFolder one, two, none;
  one.write("mine.xml", shoutXml(4));
  two.write("mine.xml", shoutXml(5));
  const auto reportOf = [](const TempFolder& folder, const std::string& asked) {
    const Variable plans("TUTTI_PLAN_DIR", folder.path()), algorithm("TUTTI_ALGO", asked);
    const auto read = ForeignPlans::read(3);
    return planReport(read, overridesFromEnvironment(read->names()));
  };
  CHECK(reportOf(one, "") == reportOf(two, ""));
  CHECK(reportOf(one, "allreduce:mine") != reportOf(two, "allreduce:mine"));
  CHECK(reportOf(one, "mine").find("it is for 4 ranks") != std::string::npos);
  const Status without = comparePlanReports({reportOf(one, "mine"), reportOf(none, "mine")});
  CHECK(without.message().find("rank 1: TUTTI_ALGO: no collective has an algorithm 'mine'") == 0);
}
#endif
