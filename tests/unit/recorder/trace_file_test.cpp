// Files that are none, are damaged, or are of one rank twice.
#include "tools/trace/trace_file.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "src/recorder/flight_recorder.hpp"
#include "tests/support/temp_folder.hpp"

using namespace tutti;
using namespace tutti::test;
using namespace tutti::trace;

namespace {

std::string bytesOf(const FileHeader& header, const std::vector<Record>& records) {
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  for (const Record& record : records) text.append(reinterpret_cast<const char*>(&record), sizeof record);
  return text;
}

FileHeader goodHeader() {
  FileHeader header;
  std::memcpy(header.magic, kRecordMagic, sizeof header.magic);
  header.version = kRecordVersion;
  header.headerBytes = sizeof(FileHeader);
  header.recordBytes = sizeof(Record);
  header.nRanks = 2;
  header.communicator = 5;
  return header;
}

Record recordOf(uint64_t number, int64_t endedNs) {
  Record record;
  record.number = number;
  record.head = number << 40;
  record.startedNs = 1;
  record.endedNs = endedNs;
  record.detail = number << kNumberShift;
  return record;
}

}  // namespace

TEST_CASE("what is no flight record is refused with the file's name") {
  const TempFolder folder;
  const auto refusal = [&](const std::string& text) {
    folder.write("x.dump", text);
    return readTrace(folder.path() + "/x.dump").status().message();
  };
  CHECK(refusal("").find("x.dump: no flight record: it is shorter than a header") != std::string::npos);
  CHECK(refusal(std::string(5000, 'x')).find("does not begin with TUTTIREC") != std::string::npos);
  FileHeader header = goodHeader();
  header.version = 9;
  CHECK(refusal(bytesOf(header, {})).find("version 9") != std::string::npos);
  for (int FileHeader::*field : {&FileHeader::rank, &FileHeader::nRanks}) {
    header = goodHeader();
    header.*field = -3;
    CHECK(refusal(bytesOf(header, {})).find("damaged") != std::string::npos);
  }
  header = goodHeader();
  std::memset(header.reason, 'x', sizeof header.reason);  // without an end
  header.numAlgorithms = 3;
  CHECK(refusal(bytesOf(header, {})) == "");
  CHECK(readTraces({folder.path() + "/none"}).status().message().find("none") != std::string::npos);
  const TempFolder empty;
  CHECK(readTraces({empty.path()}).status().message().find("has no *.trace") != std::string::npos);
}

TEST_CASE("records that are half written, or cut off, are left out") {
  const TempFolder folder;
  Record torn = recordOf(2, 9);
  torn.detail = uint64_t{1} << kNumberShift;  // of another call
  folder.write("x.trace", bytesOf(goodHeader(), {recordOf(3, 9), recordOf(0, 9), torn, recordOf(1, 9)}) + "half");
  const Result<RankTrace> trace = readTrace(folder.path() + "/x.trace");
  REQUIRE(trace.ok());
  REQUIRE(trace->records.size() == 2);
  CHECK(trace->records[0].number == 1);
  CHECK(trace->records[1].number == 3);
}

TEST_CASE("of one rank's trace and dump every call is there once, over if one says so") {
  const TempFolder folder;
  FileHeader later = goodHeader();
  later.writtenNs = 5;
  std::strcpy(later.reason, "rank 1 is gone");
  folder.write("a.trace", bytesOf(goodHeader(), {recordOf(1, 9), recordOf(2, 9)}));
  folder.write("a.dump", bytesOf(later, {recordOf(2, 0), recordOf(3, 0)}));
  folder.write("notes.txt", "no record");
  const Result<std::vector<RankTrace>> traces = readTraces({folder.path()});
  REQUIRE(traces.status().message() == "");
  REQUIRE(traces->size() == 1);
  REQUIRE(traces->front().records.size() == 3);
  CHECK_FALSE(isOpen(traces->front().records[1]));
  CHECK(isOpen(traces->front().records[2]));
  CHECK(std::string(traces->front().header.reason) == "rank 1 is gone");
}
