// Who waits for whom for ever, as a table; what could still end by itself is none.
#include <catch2/catch.hpp>

#include "src/base/types.hpp"
#include "src/control/deadlock.hpp"

using namespace tutti;

namespace {

using All = std::vector<std::optional<RankReport>>;

RankReport entered(uint64_t sequence) {
  RankReport t;
  t.state.entered = sequence;
  return t;
}
RankReport in(Collective kind, uint64_t sequence, uint64_t count = 4) {
  RankReport t = entered(sequence);
  t.state.inside = true;
  t.state.recent = {{sequence, makeFingerprint({.sequence = static_cast<uint32_t>(sequence),
                                                .kind = static_cast<uint32_t>(kind),
                                                .dtype = tuttiFloat32,
                                                .count = count})}};
  return t;
}
RankReport waits(int peer, bool isSend, uint32_t number, std::vector<PairCount> pairs) {
  RankReport t;
  t.state.message =
      MessageWait{peer, isSend, makeFingerprint({.sequence = number, .kind = kKindPointToPoint, .count = 8})};
  t.state.pairs = std::move(pairs);
  return t;
}
RankReport receives(int from, uint32_t number, std::vector<PairCount> pairs = {}) {
  return waits(from, false, number, std::move(pairs));
}
RankReport attends(Attendance call, uint64_t gathers, uint64_t sequence = 0) {
  RankReport t = entered(sequence);
  t.state.attends = call;
  t.gathers = gathers;
  t.gatherWaitingOn = 0;
  return t;
}
/// Whose thread waits in another communicator, and alone uses these.
RankReport elsewhere(RankReport t, CommunicatorCall awaited, std::vector<CommunicatorCall> others) {
  if (awaited.communicator != 0)
    t.state.elsewhere = "in AllReduce number 2 of another communicator, where it waits for rank 9";
  t.state.oneThread = true;
  t.state.awaited = awaited;
  t.state.others = std::move(others);
  return t;
}
RankReport with(RankReport t, std::vector<PairCount> pairs, uint64_t gathers = 0) {
  t.state.pairs = std::move(pairs);
  t.gathers = gathers;
  return t;
}
const Collective kSum = Collective::AllReduce;

}  // namespace

TEST_CASE("waits that end only by each other are found, and no others") {
  struct Row {
    const char* what;
    All all;
    bool found;
    int rank;
    std::vector<const char*> words;
  };
  const std::vector<Row> rows = {
      {"two receive from each other",
       {receives(1, 0, {{1, 0, 1}}), receives(0, 0, {{0, 0, 1}})},
       true,
       -1,
       {"ranks 0 and 1 wait for each other for ever", "rank 0 is in Recv from rank 1",
        "rank 1 is in Recv from rank 0"}},
      {"one of the messages is on its way", {receives(1, 0, {{1, 0, 1}}), receives(0, 0, {{0, 1, 1}})}, false, 0, {}},
      {"numbers of messages begin anew", {receives(1, 0xffffff), receives(0, 0, {{0, 0x1000000, 1}})}, false, 0, {}},
      {"three receive from each other",
       {receives(1, 0), receives(2, 3), receives(0, 0, {{1, 3, 0}})},
       true,
       -1,
       {"ranks 0, 1 and 2 wait", "rank 2 is in Recv from rank 0 (message 0 of the pair, count 8"}},
      {"of many pairs some are not told",
       {receives(1, 0), waits(0, false, 0, std::vector<PairCount>(kMaxPairCounts, PairCount{7, 1, 1}))},
       false,
       0,
       {}},
      {"what is sent may be taken yet", {waits(1, true, 0, {}), waits(0, true, 0, {})}, false, 0, {}},
      {"a receive and a destroy",
       {receives(1, 0), attends(Attendance::End, 1), attends(Attendance::End, 1)},
       true,
       0,
       {"rank 0 is in Recv from rank 1", "rank 1 is in tuttiCommDestroy"}},
      {"a split and a barrier",
       {with(in(Collective::Barrier, 5), {}), attends(Attendance::Split, 1, 4), attends(Attendance::Split, 1, 4)},
       true,
       0,
       {"rank 0 is in Barrier number 5", "rank 1 is in tuttiCommSplit"}},
      {"one more sum than the others", {in(kSum, 5), attends(Attendance::End, 1, 4)}, true, -1, {"AllReduce number 5"}},
      {"one that has entered the same sum has still to come to the end",
       {in(kSum, 5), attends(Attendance::End, 1, 5)},
       false,
       0,
       {}},
      {"a root waits for nobody, and yet nobody will come to its call",
       {in(Collective::Broadcast, 5), attends(Attendance::End, 1, 4), attends(Attendance::End, 1, 4)},
       true,
       0,
       {"rank 1 is in tuttiCommDestroy", "has not entered Broadcast number 5", "which rank 0 has"}},
      {"one that has come to the end first", {entered(4), attends(Attendance::End, 1, 4)}, false, 0, {}},
      {"a late rank waits for nobody", {in(kSum, 5), entered(4)}, false, 0, {}},
      {"a split in the background keeps nobody", {in(kSum, 5), with(entered(4), {}, 1)}, false, 0, {}},
      {"a split and a destroy",
       {attends(Attendance::Split, 1), attends(Attendance::End, 1)},
       true,
       -1,
       {"tuttiCommSplit"}},
      {"all split", {attends(Attendance::Split, 1), attends(Attendance::Split, 1)}, false, 0, {}},
      {"two communicators in opposite order",
       {elsewhere(in(kSum, 5), {}, {{7, 5}, {8, 1}}), elsewhere(in(kSum, 5), {}, {{7, 5}, {8, 1}}),
        elsewhere(entered(4), {8, 2}, {{7, 4}, {8, 2}})},
       true,
       2,
       {"ranks 0 and 2 wait for each other for ever: rank 0 is in AllReduce number 5",
        " and waits for rank 2; rank 2 is in",
        "of another communicator and waits for rank 0; ranks that share two communicators"}},
      {"three communicators in a circle",
       {elsewhere(in(kSum, 5), {}, {{8, 2}, {9, 1}}), elsewhere(entered(4), {8, 2}, {{8, 2}, {9, 2}}),
        elsewhere(entered(5), {9, 2}, {{8, 1}, {9, 2}})},
       true,
       -1,
       {"ranks 0, 1 and 2 wait"}},
      {"another thread may enter the other communicator",
       {elsewhere(in(kSum, 5), {}, {{7, 5}}), elsewhere(entered(4), {8, 2}, {{7, 4}, {8, 2}})},
       false,
       0,
       {}},
      {"the other communicator's call goes on",
       {elsewhere(in(kSum, 5), {}, {{7, 5}, {8, 2}}), elsewhere(entered(4), {8, 2}, {{7, 4}, {8, 2}})},
       false,
       0,
       {}},
      {"one that has not answered may do anything", {receives(1, 0), std::nullopt}, false, 0, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::optional<Failure> failure = diagnoseDeadlock(0, row.all);
    REQUIRE(failure.has_value() == row.found);
    if (!failure) continue;
    CHECK(failure->rank == row.rank);
    CHECK(failure->status.code() == tuttiInvalidUsage);
    for (const char* words : row.words) {
      CAPTURE(failure->status.message(), words);
      CHECK(failure->status.message().find(words) != std::string::npos);
    }
  }
}

TEST_CASE(
    "a circle through two communicators is sure only of programs with one thread, and said at the deadline else") {
  for (const bool threads : {false, true}) {
    for (const size_t which : {0u, 1u}) {
      CAPTURE(threads, which);
      All all = {elsewhere(in(kSum, 5), {}, {{7, 5}, {8, 1}}), elsewhere(entered(4), {8, 2}, {{7, 4}, {8, 2}})};
      all[which]->state.oneThread = !threads;
      CHECK(diagnoseDeadlock(0, all).has_value() == !threads);
      const std::optional<Failure> late = diagnoseDeadlock(0, all, Patience::Over);
      REQUIRE(late.has_value());
      CHECK(late->status.message().find("ranks 0 and 1 wait for each other") != std::string::npos);
    }
  }
}

TEST_CASE("a rank outside a circle finds it by those it waits for") {
  const All all = {in(kSum, 5), receives(2, 0), receives(1, 0)};
  const std::optional<Failure> failure = diagnoseDeadlock(0, all);
  REQUIRE(failure.has_value());
  CHECK(failure->status.message().find("ranks 1 and 2 wait for each other") != std::string::npos);
}
