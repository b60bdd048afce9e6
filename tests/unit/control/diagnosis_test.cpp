// Who is to blame, as a table.
#include <catch2/catch.hpp>

#include "src/base/types.hpp"
#include "src/control/diagnosis.hpp"

using namespace tutti;

namespace {

using All = std::vector<std::optional<RankReport>>;

Fingerprint call(Collective kind, uint32_t sequence, uint64_t count = 4) {
  return makeFingerprint(
      {.sequence = sequence, .kind = static_cast<uint32_t>(kind), .dtype = tuttiFloat32, .count = count});
}

/// Inside its collective number `sequence`, waiting for a peer.
RankReport inside(uint32_t sequence, int waitingOn, Collective kind = Collective::AllReduce) {
  RankReport t;
  t.state = {.entered = sequence, .inside = true, .waitingOn = waitingOn, .recent = {{sequence, call(kind, sequence)}}};
  return t;
}
/// Its last collective was `sequence`.
RankReport outside(uint32_t sequence) {
  RankReport t = inside(sequence, -1);
  t.state.inside = false;
  return t;
}
RankReport left(uint32_t sequence) {
  RankReport t = outside(sequence);
  t.left = true;
  return t;
}
RankReport gathering(uint64_t number, int waitingOn, Attendance call = Attendance::None) {
  RankReport t;
  t.state.attends = call;
  t.gathers = number;
  t.gatherWaitingOn = waitingOn;
  return t;
}
/// In a Recv of message number `sequence` of the pair.
RankReport receiving(int peer, uint32_t sequence) {
  RankReport t;
  t.state.message = MessageWait{peer, false, call(Collective::AllReduce, sequence)};
  return t;
}
/// Has begun `sends` messages to a peer.
RankReport sent(int peer, uint32_t sends) {
  RankReport t;
  t.state.pairs = {{peer, sends, 0}};
  return t;
}
RankReport leftAfter(uint64_t gathers) {
  RankReport t = left(0);
  t.gathers = gathers;
  return t;
}
RankReport leftAfterSending(int peer, uint32_t sends) {
  RankReport t = sent(peer, sends);
  t.left = true;
  return t;
}
const Collective kBroadcast = Collective::Broadcast;
const std::optional<RankReport> kMute;

}  // namespace

TEST_CASE("the diagnosis names the culprit and the calls") {
  using R = InquiryReason;
  struct Row {
    const char* what;
    Question question;
    All all;
    bool fails;
    int rank;
    std::vector<const char*> words;
  };
  const std::vector<Row> rows = {
      {"one of three differs",
       {R::Mismatch, 0, 17, 1},
       {inside(17, 1), inside(17, 2, kBroadcast), inside(17, 0)},
       true,
       1,
       {"rank 1 called Broadcast number 17 (count 4, float, root 0)",
        "ranks 0 and 2 called AllReduce number 17 (count 4, float, sum)"}},
      {"of two that differ both are named",
       {R::Mismatch, 0, 3, 1},
       {inside(3, 1), inside(3, 0, kBroadcast)},
       true,
       -1,
       {"rank 0 called AllReduce number 3", "rank 1 called Broadcast number 3"}},
      {"the earliest difference counts, even if a rank has gone on",
       {R::Stalled, 0, 5, 1},
       {[] {
          RankReport t = inside(5, 1);
          t.state.recent = {{4, call(Collective::AllReduce, 4, 8)}, {5, call(Collective::AllReduce, 5)}};
          return t;
        }(),
        inside(4, 2), inside(4, 1)},
       true,
       0,
       {"rank 0 called AllReduce number 4 (count 8", "ranks 1 and 2 called AllReduce number 4 (count 4"}},
      {"a rank that no longer remembers the call has no vote",
       {R::Deadline, 0, 2, 1},
       {inside(2, 1), inside(2, 0, kBroadcast), outside(9)},
       true,
       -1,
       {"rank 0 called", "rank 1 called"}},
      {"stalled, but all is well", {R::Stalled, 0, 2, 1}, {inside(2, 1), outside(1), inside(2, 1)}, false, 0, {}},
      {"stalled, and a mute rank is no failure", {R::Stalled, 0, 2, 1}, {inside(2, 1), kMute}, false, 0, {}},
      {"stalled, and a rank has left before the call",
       {R::Stalled, 0, 2, 1},
       {inside(2, 1), left(1), inside(2, 1)},
       true,
       1,
       {"rank 1 has destroyed its communicator", "AllReduce number 2"}},
      {"leaving after the call is fine", {R::Stalled, 0, 2, 1}, {inside(2, 1), left(2), inside(2, 1)}, false, 0, {}},
      {"a mute rank is silent",
       {R::Deadline, 0, 2, 1},
       {inside(2, 1), inside(2, 2), kMute},
       true,
       2,
       {"rank 2 does not answer", "AllReduce number 2"}},
      {"of several mute ranks the one waited for",
       {R::Deadline, 0, 2, 2},
       {inside(2, 2), kMute, kMute, inside(2, 1)},
       true,
       2,
       {"rank 2 does not answer", "nor does rank 1"}},
      {"a rank that has not entered is absent",
       {R::Deadline, 0, 17, 3},
       {inside(17, 3), inside(17, 0), inside(17, 1), outside(16)},
       true,
       3,
       {"rank 3 has not entered AllReduce number 17", "its last was AllReduce number 16"}},
      {"the end of the chain is to blame, not the neighbour",
       {R::Deadline, 0, 17, 1},
       {inside(17, 1), inside(16, 2), inside(16, 3), outside(15)},
       true,
       3,
       {"rank 3 has not entered AllReduce number 16", "rank 2 waits"}},
      {"who waits for what another has done is slow itself",
       {R::Deadline, 2, 14, 1},
       {outside(14), outside(14), inside(14, 1)},
       true,
       2,
       {"rank 2 is still in AllReduce number 14", "waits for rank 1, which has done its part", "gets no core"}},
      {"so it is where the other waits for it in the next call",
       {R::Deadline, 1, 15, 2},
       {inside(15, 2), inside(15, 2), inside(14, 1)},
       true,
       2,
       {"rank 2 is still in AllReduce number 14", "waits for rank 1, which has done its part"}},
      {"or has sent its message",
       {R::Deadline, 0, 0, 1},
       {receiving(1, 3), sent(0, 4)},
       true,
       0,
       {"rank 0 is still in Recv from rank 1 (message 3 of the pair", "rank 1, which has done its part"}},
      {"or has been through the exchange",
       {R::Deadline, 0, 0, -1},
       {gathering(1, 1), gathering(1, -1)},
       true,
       0,
       {"rank 0 is still in control exchange number 1", "rank 1, which has done its part"}},
      {"but not where the message is the next one",
       {R::Deadline, 0, 0, 1},
       {receiving(1, 4), sent(0, 4)},
       true,
       1,
       {"rank 0 waits for rank 1 in Recv", "rank 1 is in no call"}},
      {"ranks that wait for each other: nobody in particular",
       {R::Deadline, 0, 2, 1},
       {inside(2, 1), inside(2, 0)},
       true,
       -1,
       {"rank 0 has waited too long for rank 1 in AllReduce number 2", "timeout"}},
      {"a control exchange that a rank does not enter",
       {R::Deadline, 0, 0, -1},
       {gathering(4, 2), gathering(4, 0), gathering(3, -1)},
       true,
       2,
       {"rank 2 has not entered control exchange number 4", "; it is in no call", "find what keeps it"}},
      {"a Split that a rank does not call",
       {R::Deadline, 1, 0, -1},
       {gathering(2, 2, Attendance::Split), gathering(2, 0, Attendance::Split), gathering(1, -1)},
       true,
       2,
       {"rank 2 has not entered tuttiCommSplit in which rank ", "find what keeps it"}},
      {"a control exchange that a rank has left before",
       {R::Deadline, 0, 0, -1},
       {gathering(4, 2), gathering(4, 0), left(0)},
       true,
       2,
       {"rank 2 has destroyed its communicator", "control exchange"}},
      {"a rank has left after the exchange that the asking rank waits in by now",
       {R::Stalled, 0, 0, 2},
       {gathering(4, 1, Attendance::End), gathering(4, 0, Attendance::End), leftAfter(4)},
       false,
       0,
       {}},
      {"a rank has left after it sent the message that the asking rank waits for",
       {R::Stalled, 0, 0, 1},
       {receiving(1, 7), leftAfterSending(0, 8)},
       false,
       0,
       {}},
      {"a rank has left before it sent that message",
       {R::Stalled, 0, 0, 1},
       {receiving(1, 7), leftAfterSending(0, 7)},
       true,
       1,
       {"rank 1 has destroyed its communicator while rank 0 waits in Recv"}},
      {"a rank has left that the asking rank waits for without a call",
       {R::Stalled, 0, 0, 1},
       {RankReport{}, left(0)},
       true,
       1,
       {"rank 1 has destroyed its communicator"}},
      {"a mismatch that nobody's calls explain names the sender",
       {R::Mismatch, 0, 2, 1},
       {inside(2, 1), inside(2, 0)},
       true,
       1,
       {"rank 0 got a message of another call from rank 1", "AllReduce number 2"}},
      {"nothing known at all does no harm", {R::Deadline, 0, 0, -1}, {RankReport{}}, true, -1, {"rank 0"}},
      {"garbage from peers does no harm", {R::Deadline, 0, 9, 7}, {inside(9, 77), inside(9, -9)}, true, -1, {"rank 0"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Diagnosis diagnosis = diagnose(row.question, row.all);
    REQUIRE(diagnosis.failure.has_value() == row.fails);
    if (!row.fails) continue;
    const std::string& text = diagnosis.failure->status.message();
    CAPTURE(text);
    CHECK(diagnosis.failure->rank == row.rank);
    for (const char* word : row.words) CHECK(text.find(word) != std::string::npos);
  }
}

TEST_CASE("a majority is certain once the others cannot turn it around") {
  const Question q{InquiryReason::Mismatch, 0, 1, 1};
  CHECK_FALSE(diagnose(q, All{inside(1, 1), inside(1, 0, kBroadcast), kMute}).certain);
  CHECK_FALSE(diagnose(q, All{inside(1, 1), inside(1, 0, kBroadcast), outside(0)}).certain);
  CHECK(diagnose(q, All{inside(1, 1), inside(1, 0, kBroadcast), inside(1, 0), inside(1, 0), kMute}).certain);
}

TEST_CASE("lists of ranks read well") {
  CHECK(listRanks({3}) == "3");
  CHECK(listRanks({3, 7}) == "3 and 7");
  CHECK(listRanks({1, 2, 3}) == "1, 2 and 3");
  CHECK(listRanks({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) == "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
}
