// The recorder by itself: what stays of many calls, what a reader sees while they go on, which times are exact.
#include "src/recorder/flight_recorder.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "src/recorder/record_paths.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"
#include "tools/trace/trace_file.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

const RecorderIdentity kIdentity{1, 3, 0xc0ffee, 7, "tests"};

Fingerprint allReduce(uint64_t sequence, uint64_t count) {
  CallParts parts;
  parts.sequence = static_cast<uint32_t>(sequence);
  parts.kind = static_cast<uint32_t>(Collective::AllReduce);
  parts.dtype = tuttiFloat32;
  parts.count = count;
  return makeFingerprint(parts);
}

Fingerprint message(uint64_t number) {
  CallParts parts;
  parts.sequence = static_cast<uint32_t>(number);
  parts.kind = kKindPointToPoint;
  parts.count = 5;
  return makeFingerprint(parts);
}

trace::RankTrace dumped(FlightRecorder& recorder, const TempFolder& folder, const std::string& why = "a test") {
  const std::string path = folder.path() + "/now.dump";
  REQUIRE(recorder.dump(path, why).message() == "");
  Result<trace::RankTrace> trace = trace::readTrace(path);
  REQUIRE(trace.status().message() == "");
  return *trace;
}

}  // namespace

TEST_CASE("the newest calls stay, collectives and messages each for themselves") {
  const Variable calls("TUTTI_RECORD_CALLS", "8");
  const TempFolder folder;
  FlightRecorder recorder;
  REQUIRE(recorder.open(kIdentity).ok());
  const uint32_t ring = recorder.indexOf("ring");
  CHECK(recorder.indexOf("tree") == ring + 1);
  CHECK(recorder.indexOf("ring") == ring);
  for (uint64_t i = 1; i <= 21; ++i) {
    recorder.enter(i, allReduce(i, 100 + i), {4 * (100 + i), encodeDetail({.algorithm = ring}), 0, true});
    recorder.leave();
    if (i > 3) continue;
    const auto sent = recorder.beginMessage(message(i), {20, encodeDetail({.isSend = true, .peer = 2}), 0, true});
    if (i < 3) recorder.endMessage(sent, i == 2);
  }
  recorder.enter(22, allReduce(22, 9), {36, 0, 0, true});
  const trace::RankTrace trace = dumped(recorder, folder);
  CHECK(trace.header.rank == 1);
  CHECK(trace.header.nRanks == 3);
  CHECK(std::string(trace.header.name) == "tests");
  CHECK(std::string(trace.header.reason) == "a test");
  REQUIRE(trace.records.size() == 8 + 3);
  std::vector<uint64_t> collectives;
  std::vector<int> ends;  // of messages: over, failed, open
  for (const Record& record : trace.records) {
    if (trace::isMessage(record)) {
      CHECK(decodeDetail(record.detail).peer == 2);
      CHECK(decodeDetail(record.detail).isSend);
      ends.push_back(record.endedNs > 0 ? 1 : record.endedNs < 0 ? -1 : 0);
      continue;
    }
    collectives.push_back(partsOf(trace::callOf(record)).sequence);
    CHECK((record.endedNs == 0) == (collectives.back() == 22));
    if (record.endedNs != 0) CHECK(record.endedNs >= record.startedNs);
    if (collectives.back() < 22) CHECK(trace::algorithmOf(trace, record) == "ring");
  }
  CHECK(collectives == std::vector<uint64_t>{15, 16, 17, 18, 19, 20, 21, 22});
  CHECK(ends == std::vector<int>{1, -1, 0});
  CHECK(recorder.totals().calls == 25);
  CHECK(recorder.recent().size() == 8);
  CHECK(recorder.recent().back().first == 22);
  CHECK(recorder.place().inside);
  recorder.fail();
  CHECK_FALSE(recorder.place().inside);
  CHECK(dumped(recorder, folder).records.back().endedNs < 0);
}

// The writer makes every word of a record a function of its number; a reader that mixed two would see it.
TEST_CASE("a record that is dumped while calls go on is of one call") {
  const Variable calls("TUTTI_RECORD_CALLS", "16");
  const TempFolder folder;
  FlightRecorder recorder;
  REQUIRE(recorder.open(kIdentity).ok());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      recorder.enter(i, allReduce(i, 1000 + i), {3 * i, 0, static_cast<int64_t>(7 * i), false});
      recorder.leave();
    }
  });
  size_t seen = 0;
  std::string wrong;
  for (int round = 0; round < 100; ++round) {
    const std::string path = folder.path() + "/now.dump";
    if (recorder.write(path.c_str(), "") != 0) wrong = "not written";
    const Result<trace::RankTrace> trace = trace::readTrace(path);
    if (!trace.ok()) wrong = trace.status().message();
    if (!trace.ok()) break;
    for (const Record& r : trace->records) {
      const uint64_t i = r.number;
      const bool whole = r.head == allReduce(i, 0).head && r.count == 1000 + i && r.bytes == 3 * i &&
                         r.enqueuedNs == static_cast<int64_t>(7 * i);
      if (!whole) wrong = cat("record ", i, " is of several calls");
      ++seen;
    }
    for (const auto& [sequence, call] : recorder.recent()) {
      if (call != allReduce(sequence, 1000 + sequence)) wrong = cat("call ", sequence, " is of several");
    }
  }
  stop = true;
  writer.join();
  CHECK(wrong == "");
  CHECK(seen > 0);
}

TEST_CASE("short calls have the time of the last look at the clock, and exact ones once they wait") {
  const TempFolder folder;
  FlightRecorder recorder;
  REQUIRE(recorder.open(kIdentity).ok());
  const CallRecord brief{8, kCoarseBit, 0, false};
  const int64_t look = recorder.look();
  recorder.enter(1, allReduce(1, 2), brief);
  recorder.leave();
  recorder.enter(2, allReduce(2, 2), brief);
  const int64_t before = nowNs();
  recorder.waits();
  recorder.leave();
  const trace::RankTrace trace = dumped(recorder, folder);
  REQUIRE(trace.records.size() == 2);
  CHECK(trace.records[0].startedNs == look);
  CHECK(trace.records[0].endedNs == look);
  CHECK(decodeDetail(trace.records[0].detail).coarse);
  CHECK(trace.records[1].startedNs >= before);
  CHECK(trace.records[1].endedNs >= trace.records[1].startedNs);
  CHECK_FALSE(decodeDetail(trace.records[1].detail).coarse);
}

TEST_CASE("a trace is in its file at once, whatever becomes of the process") {
  const TempFolder folder;
  const Variable where("TUTTI_TRACE", folder.path() + "/made");
  const Variable calls("TUTTI_RECORD_CALLS", "64");
  const std::string path = folder.path() + "/made/tutti-0000000000c0ffee-rank0001.trace";
  {
    FlightRecorder recorder;
    REQUIRE(recorder.open(kIdentity).message() == "");
    CHECK(recorder.traces());
    recorder.enter(1, allReduce(1, 2), {8, 0, 0, true});
    recorder.waitFor(2);
    const Result<trace::RankTrace> live = trace::readTrace(path);
    REQUIRE(live.status().message() == "");
    REQUIRE(live->records.size() == 1);
    CHECK(trace::isOpen(live->records[0]));
    CHECK(live->header.waitingOn == 2);
    CHECK(live->header.writtenNs == 0);
    recorder.noteFailure("rank 2 is gone");
  }
  const Result<trace::RankTrace> ended = trace::readTrace(path);
  REQUIRE(ended.ok());
  CHECK(ended->header.writtenNs > 0);
  CHECK(std::string(ended->header.reason) == "rank 2 is gone");
}

TEST_CASE("what cannot be written is refused with the file's name") {
  const TempFolder folder;
  const Variable calls("TUTTI_RECORD_CALLS", "64");
  {
    const Variable where("TUTTI_TRACE", "/dev/null/no");
    FlightRecorder recorder;
    CHECK(recorder.open(kIdentity).message().find("TUTTI_TRACE=/dev/null/no: cannot make the folder") == 0);
  }
  FlightRecorder recorder;
  REQUIRE(recorder.open(kIdentity).ok());
  const std::string path = folder.path() + "/missing/x.dump";
  CHECK(recorder.dump(path, "").message().find(path) != std::string::npos);
  CHECK(checkRecordPattern("TUTTI_DUMP", "/x/%c.%r").ok());
  for (const char* wrong : {"/x/%r", "/x/%c", "/x/%c%r%", "/x/%c%r%z"})
    CHECK(checkRecordPattern("TUTTI_DUMP", wrong).code() == tuttiInvalidUsage);
  const Result<std::string> name = recordPath("TUTTI_DUMP", folder.path() + "/%c-%r-%p%%", ".dump", kIdentity);
  REQUIRE(name.ok());
  CHECK(*name == folder.path() + "/0000000000c0ffee-1-" + std::to_string(getpid()) + "%");
}
