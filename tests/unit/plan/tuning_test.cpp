#include "src/plan/tuning.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <tuple>

#include "src/cost/kept_text.hpp"
#include "src/plan/estimates.hpp"
#include "src/plan/planner.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"
#include "transport/shm/entry.hpp"
#include "transport/table.hpp"
#include "transport/tcp/entry.hpp"

namespace {

using namespace tutti;

const MachineIdentity kTunedMachine = {"test cpu", 8, "test"};
const TunedRanks kFour = {4, 1, "shm-processes", "", 2};

Tuning tunings() {
  Tuning tuning{kTunedMachine, {}};
  tuning.put({kFour,
              {{Collective::AllReduce, 1024, "ring", Protocol::Slots, 10},
               {Collective::AllReduce, 16384, "tree", Protocol::Direct, 40},
               {Collective::Broadcast, 1024, "scatterallgather", Protocol::Slots, 3, true}},
              {{4096, Protocol::Slots, 2}, {65536, Protocol::Direct, 8}}});
  tuning.put({{8, 2, "shm-threads", "tcp-remote", 1}, {}});
  tuning.learn(tuning.sets[1].ranks, TunedWay{Collective::AllGather, 100, "bruck", Protocol::Slots, 5, true});
  tuning.learn(tuning.sets[1].ranks, TunedSend{70'000, Protocol::Slots, 9});
  return tuning;
}

PlanRequest request(Collective collective, size_t bytes) {
  PlanRequest r;
  r.shape = {.collective = collective, .nRanks = 4, .bytes = bytes};
  r.links = {kShmProcesses, std::nullopt, 2};
  r.directPossible = true;
  return r;
}

Choice plannedWith(const PlanRequest& r) {
  const auto choice = plan(r, defaultCalibration(kTunedMachine, linkKinds()));
  REQUIRE(choice.status().message() == "");
  return *choice;
}

}  // namespace

TEST_CASE("tuning reads back what it printed, and refuses everything else with the line") {
  const std::string text = toText(tunings());
  const auto again = parseTuning(text);
  REQUIRE(again.status().message() == "");
  CHECK(*again == tunings());
  for (const char* wrong :
       {"best allreduce 8 ring slots 1", "learned allreduce 8 ring slots 1", "ranks 4 1 shm-processes - 0",
        "ranks 4 1 Wire - 1", "ranks 4 1 - -", "ranks 4 1 - - 1\nbest nothing 8 ring slots 1",
        "ranks 4 1 - - 1\nbest allreduce 8 ring slots nan", "ranks 4 1 - - 1\nbest allreduce -8 ring slots 1",
        "ranks 4 1 - - 1\nbest allreduce 8 ring slots 1 alone", "word", "send 8 direct 1",
        "ranks 4 1 - - 1\nsend 0 direct 1", "ranks 4 1 - - 1\nsend 8 direct", "ranks 4 1 - - 1\nsend 8 magic 1",
        "ranks 4 1 - - 1\nsend 8 direct 0", "learned send 8 direct 1", "ranks 4 1 - - 1\nlearned send 8 direct 0"}) {
    CAPTURE(wrong);
    const auto refused = parseTuning(cat("tutti-tuning 1\n", machineLines(kTunedMachine), wrong, "\nend\n"));
    CHECK(refused.status().message().find("is not understood") != std::string::npos);
  }
  CHECK(!parseTuning("tutti-tuning 1\nend\n").ok());
  CHECK(!parseTuning(text.substr(0, text.size() - 5)).ok());
  CHECK(!parseTuning(std::string(kMostTuningBytes + 1, 'x')).ok());
}

TEST_CASE("a set replaces the one for the same ranks") {
  Tuning tuning = tunings();
  tuning.put({kFour, {{Collective::AllReduce, 8, "tree", Protocol::Inline, 1}}});
  REQUIRE(tuning.sets.size() == 2);
  CHECK(tuning.sets.back().ways.size() == 1);
}

TEST_CASE("what jobs learned holds for about its size, before what was tuned") {
  Tuning tuning = tunings();
  const auto at = [&](size_t bytes) { return tunedFor(tuning, request(Collective::AllReduce, bytes)).value(); };
  tuning.learn(kFour, TunedWay{Collective::AllReduce, 2000, "twoshot", Protocol::Slots, 7});
  CHECK(at(2000).us == 7);
  for (const size_t bytes : {1700, 2400}) CHECK(at(bytes).algorithm == "twoshot");
  for (const size_t bytes : {1024, 2600, 16384}) CHECK(at(bytes).algorithm != "twoshot");
  tuning.learn(kFour, TunedWay{Collective::AllReduce, 2000, "ring", Protocol::Direct, 6});
  CHECK(at(2000).us == 6);
  CHECK(tuning.sets.back().learned.size() == 1);
  CHECK(tuning.sets.back().ways.size() == 3);  // as they were
  CHECK(!tunedFor(tuning, request(Collective::AllGather, 100)));
  tuning.learn(kFour, TunedWay{Collective::AllGather, 100, "ring", Protocol::Slots, 1});
  CHECK(tunedFor(tuning, request(Collective::AllGather, 90))->us == 1);
  CHECK(!tunedFor(tuning, request(Collective::AllGather, 1000)));
}

TEST_CASE("what there is beside a measured way is estimated, whatever was estimated before") {
  using Row = std::tuple<std::string_view, Protocol, bool, double>;
  const Tuning tuning = tunings();
  const Calibration figures = defaultCalibration(kTunedMachine, linkKinds());
  const auto beside = [&](Estimates* estimates, const PlanRequest& r) {
    const Result<Choice> choice = plan(r, figures, estimates);
    REQUIRE((choice.ok() && choice->table.front().tuned));
    double least = HUGE_VAL;
    for (const Candidate& row : choice->table) {
      if (!row.tuned && !row.atLeast && row.excluded.empty()) least = std::min(least, row.comparedUs());
    }
    std::vector<Row> rows;
    for (const Candidate& row : choice->table) {
      const bool near = !row.tuned && !row.atLeast && row.excluded.empty() && row.comparedUs() <= r.within * least;
      if (near) rows.emplace_back(row.name(), row.protocol, row.joined, row.costUs);
    }
    return rows;
  };
  for (const size_t bytes : {size_t{1024}, size_t{16384}}) {
    PlanRequest r = request(Collective::AllReduce, bytes);
    r.tuning = &tuning;
    Estimates alone, afterAll;
    PlanRequest all = r;
    all.wholeTable = true;
    REQUIRE(plan(all, figures, &afterAll).ok());
    r.within = 2;
    const std::vector<Row> rows = beside(&alone, r);
    CHECK(rows.size() > 1);
    CHECK(rows == beside(&afterAll, r));
  }
}

TEST_CASE("what jobs learned of sends holds for about their size, before what was tuned") {
  Tuning tuning = tunings();
  const auto at = [&](size_t bytes) { return tunedSend(tuning, kFour, bytes).value(); };
  REQUIRE(at(65536).protocol == Protocol::Direct);
  tuning.learn(kFour, TunedSend{60'000, Protocol::Slots, 7});
  CHECK(at(65536).us == 7);
  for (const size_t bytes : {50'000, 70'000}) CHECK(at(bytes).protocol == Protocol::Slots);
  CHECK(at(131'072).protocol == Protocol::Direct);
  tuning.learn(kFour, TunedSend{60'000, Protocol::Direct, 6});
  CHECK(at(60'000).us == 6);
  CHECK(keepsSend(tuning, kFour, 60'000));
  CHECK(!keepsSend(tuning, kFour, 65'536));
  for (size_t bytes = 1; bytes <= Tuning::kMostLearned; ++bytes)
    tuning.learn(kFour, TunedSend{bytes, Protocol::Slots, 1});
  CHECK(!keepsSend(tuning, kFour, 60'000));  // of what was learned the latest stays
  CHECK(at(4096).us == 2);
}

TEST_CASE("of what was learned the latest stays") {
  Tuning tuning{kTunedMachine, {}};
  for (size_t i = 1; i <= Tuning::kMostLearned + 5; ++i)
    tuning.learn(kFour, TunedWay{Collective::Reduce, i, "ring", Protocol::Slots, 1});
  REQUIRE(tuning.sets[0].learned.size() == Tuning::kMostLearned);
  CHECK(tuning.sets[0].learned.front().bytes == 6);
  for (int n = 5; n < 5 + static_cast<int>(Tuning::kMostLearnedSets); ++n)
    tuning.learn({n, 1, "shm-processes", "", 1}, TunedWay{Collective::Reduce, 8, "ring", Protocol::Slots, 1});
  CHECK(tuning.sets.size() == Tuning::kMostLearnedSets);
  CHECK(tuning.sets.front().ranks.nRanks == 5);
  for (Tuning::Set& set : tuning.sets) {
    for (size_t i = 0; i < Tuning::kMostLearned; ++i)
      set.learned.push_back({Collective::AllReduce, SIZE_MAX - i, "scatterallgather", Protocol::Direct, 1.0 / 3, true});
    for (size_t i = 0; i < Tuning::kMostLearned; ++i)
      set.learnedSends.push_back({SIZE_MAX - i, Protocol::Direct, 1.0 / 3});
  }
  CHECK(toText(tuning).size() <= kMostTuningBytes);  // even twice as many can be read back
}

TEST_CASE("the nearest size decides, and times lie on a line between two") {
  const Tuning tuning = tunings();
  const auto at = [&](size_t bytes) { return tunedFor(tuning, request(Collective::AllReduce, bytes)).value(); };
  CHECK(at(1024).algorithm == "ring");
  CHECK(at(1024).us == 10);
  CHECK(at(2048).algorithm == "ring");
  CHECK(at(4096).us == Approx(20));
  CHECK(at(8192).algorithm == "tree");
  CHECK(at(4).us == 10);
  CHECK(at(65536).us == Approx(160));
  CHECK(!tunedFor(tuning, request(Collective::AllReduce, 0)));
  CHECK(!tunedFor(tuning, request(Collective::Reduce, 1024)));
  PlanRequest r = request(Collective::AllReduce, 1024);
  r.shape.uneven = true;
  CHECK(!tunedFor(tuning, r));
  r = request(Collective::AllReduce, 1024);
  r.links.ranksPerCore = 1;
  CHECK(!tunedFor(tuning, r));
  r = request(Collective::AllReduce, 1024);
  r.shape.nodeOf = {0, 0, 0, 1};
  CHECK(!tunedFor(tuning, r));
}

TEST_CASE("the nearest size decides the way of a message between two ranks") {
  const Tuning tuning = tunings();
  const auto at = [&](size_t bytes) { return tunedSend(tuning, kFour, bytes).value(); };
  CHECK(at(100).protocol == Protocol::Slots);
  CHECK(at(8192).protocol == Protocol::Slots);
  CHECK(at(16384).us == Approx(4));
  CHECK(at(32768).protocol == Protocol::Direct);
  CHECK(at(131072).us == Approx(16));
  CHECK(!tunedSend(tuning, kFour, 0));
  TunedRanks others = kFour;
  others.perCore = 1;
  CHECK(!tunedSend(tuning, others, 4096));
  CHECK(!tunedSend(tuning, {8, 2, "shm-threads", "tcp-remote", 1}, 4096));
}

TEST_CASE("the planner takes what was measured, unless it may not be taken") {
  Tuning tuning = tunings();
  PlanRequest r = request(Collective::AllReduce, 16384);
  const Choice byCosts = plannedWith(r);
  r.tuning = &tuning;
  const Choice tuned = plannedWith(r);
  CHECK(tuned.name() == "tree");
  CHECK(tuned.protocol == Protocol::Direct);
  CHECK(tuned.costUs == 40);
  CHECK(explain(r, tuned).find("measured to be the fastest") != std::string::npos);

  r.wholeTable = true;
  const Choice whole = plannedWith(r);
  CHECK(whole.name() == "tree");
  CHECK(whole.table.size() == byCosts.table.size());

  r.wholeTable = false;
  SECTION("the user asks for another algorithm") {
    REQUIRE(parseAlgorithms("allreduce:ring", &r.overrides).ok());
    CHECK(plannedWith(r).name() == "ring");
  }
  SECTION("the user asks for another protocol") {
    r.overrides.protocol = Protocol::Slots;
    CHECK(plannedWith(r).protocol == Protocol::Slots);
  }
  SECTION("not every buffer can be read") {
    r.directPossible = false;
    CHECK(plannedWith(r).protocol != Protocol::Direct);
  }
  SECTION("an algorithm that this library does not have") {
    tuning.sets[0].ways[1].algorithm = "astrology";
    CHECK(plannedWith(r).name() == byCosts.name());
  }
}

TEST_CASE("messages of several chunks are as the user asks, whatever was measured") {
  const Tuning tuning = tunings();
  PlanRequest r = request(Collective::Broadcast, 1024);
  r.joinBytes = 32768;
  r.tuning = &tuning;
  CHECK(plannedWith(r).table.front().tuned);
  CHECK(plannedWith(r).joined);
  for (const bool asked : {true, false}) {
    r.overrides.joined = asked;
    const Choice choice = plannedWith(r);
    CHECK(choice.table.front().tuned == asked);
    for (const Candidate& row : choice.table) {
      if (row.excluded.empty() && row.algorithm->joins)
        CHECK((row.joined == asked || row.protocol == Protocol::Direct));
    }
  }
}

TEST_CASE("tuning is kept beside the calibration; what is no good is done without") {
  const test::TempFolder folder;
  const test::Variable quiet("TUTTI_LOG", "error");
  const test::Variable where("TUTTI_CALIBRATION", cat(folder.path(), "/figures"));
  CHECK(tuningPath(kTunedMachine) == cat(folder.path(), "/figures.tuned"));
  CHECK(keptTuning(kTunedMachine).sets.empty());
  REQUIRE(writeKeptFile(tuningPath(kTunedMachine), toText(tunings())).ok());
  CHECK(keptTuning(kTunedMachine) == tunings());
  const TunedWay learned{Collective::AllToAll, 4096, "bruck4", Protocol::Slots, 2.5};
  REQUIRE(keepLearned(kTunedMachine, kFour, {learned}).ok());
  CHECK(tuningPath(kTunedMachine, TuningFile::Learned) == cat(folder.path(), "/figures.learned"));
  CHECK(tuningIn(kTunedMachine, TuningFile::Tuned) == tunings());
  const TunedWay another{Collective::AllToAll, 64, "direct", Protocol::Slots, 1};
  REQUIRE(keepLearned(kTunedMachine, kFour, {another}).ok());
  REQUIRE(keepLearned(kTunedMachine, {3, 1, "shm-processes", "", 1.5}, {another}).ok());
  const Tuning both = keptTuning(kTunedMachine);
  REQUIRE(both.sets.size() == 3);
  CHECK(both.sets[0].learned == std::vector{learned, another});
  CHECK(both.sets[0].ways == tunings().sets[0].ways);
  CHECK(both.sets[2].learned == std::vector{another});
  REQUIRE(forgetLearned(kTunedMachine, kFour).ok());
  CHECK(keptTuning(kTunedMachine).sets[0].learned.empty());
  CHECK(keptTuning(kTunedMachine).sets[2].learned == std::vector{another});
  REQUIRE(writeKeptFile(tuningPath(kTunedMachine, TuningFile::Learned), "nonsense").ok());
  CHECK(keptTuning(kTunedMachine) == tunings());
  CHECK(keptTuning({"another cpu", 8, "test"}).sets.empty());
  REQUIRE(writeKeptFile(tuningPath(kTunedMachine), "nonsense").ok());
  CHECK(keptTuning(kTunedMachine).sets.empty());
  const test::Variable off("TUTTI_CALIBRATION", "off");
  CHECK(tuningPath(kTunedMachine).empty());
}
