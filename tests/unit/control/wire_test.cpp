// Bytes of messages: what is written is read, and nothing else is believed.
#include <catch2/catch.hpp>

#include "src/control/diagnosis.hpp"
#include "src/control/failure.hpp"
#include "src/control/gather.hpp"
#include "src/control/rendezvous.hpp"
#include "src/control/wire.hpp"

using namespace tutti;

TEST_CASE("numbers and texts go there and back") {
  Writer w(MessageType::Peers);
  w.u8(200);
  w.u32(0xdeadbeef);
  w.u64(0x0123456789abcdef);
  w.i32(-5);
  w.i64(-6);
  w.text("seven");
  w.raw("raw", 3);
  Reader r(w.str());
  CHECK(r.u8() == static_cast<uint8_t>(MessageType::Peers));
  CHECK(r.u8() == 200);
  CHECK(r.u32() == 0xdeadbeef);
  CHECK(r.u64() == 0x0123456789abcdef);
  CHECK(r.i32() == -5);
  CHECK(r.i64() == -6);
  CHECK(r.text(5) == "seven");
  char raw[3];
  CHECK(r.raw(raw, 3));
  CHECK(std::string_view(raw, 3) == "raw");
  CHECK(r.done());
  CHECK(r.u8() == 0);
  CHECK_FALSE(r.ok());
}

TEST_CASE("a reader that was disappointed once gives nothing more") {
  Reader tooLong(std::string_view("\x05\0\0\0hello", 9));
  CHECK(tooLong.text(4).empty());
  CHECK(tooLong.u8() == 0);
  CHECK_FALSE(tooLong.ok());
  Reader lie(std::string_view("\xff\xff\xff\xff", 4));
  CHECK(lie.count(1) == 0);
  CHECK_FALSE(lie.ok());
  Reader past(std::string_view("\x05\0\0\0hell", 8));
  CHECK(past.text(100).empty());
  CHECK_FALSE(past.ok());
}

TEST_CASE("every message cut short or lengthened is refused") {
  RankReport t;
  t.state = {.entered = 3, .inside = true, .waitingOn = 1, .recent = {{2, {1, 2}}, {3, {4, 5}}}};
  t.state.awaited = {6, 7};
  t.state.others = {{6, 5}, {8, 9}};
  Writer report;
  writeRankReport(report, t);
  struct Row {
    const char* name;
    std::string message;
    std::function<bool(Reader&)> read;
  };
  const std::vector<Row> rows = {
      {"registration", registerMessage({1, 2, "sim:1", {9}, 77}).substr(1),
       [](Reader& in) { return readRegistration(in).ok(); }},
      {"peers", peersMessage({{1, "a"}, {2, "b"}}).substr(1), [](Reader& in) { return readPeers(in).ok(); }},
      {"failure", failureMessage({3, timeoutError("late")}).substr(1), [](Reader& in) { return readFailure(in).ok(); }},
      {"report", report.str(),
       [](Reader& in) {
         readRankReport(in);
         return in.done();
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Reader whole(row.message);
    CHECK(row.read(whole));
    const std::string more = row.message + "x";
    Reader longer(more);
    CHECK_FALSE(row.read(longer));
    for (size_t bytes = 0; bytes < row.message.size(); ++bytes) {
      Reader shorter(std::string_view(row.message).substr(0, bytes));
      CHECK_FALSE(row.read(shorter));
    }
  }
  Reader back(report.str());
  const RankReport read = readRankReport(back);
  CHECK(read.state.recent == t.state.recent);
  CHECK(read.state.inside);
  CHECK(read.state.waitingOn == 1);
  CHECK(read.state.awaited.sequence == 7);
  CHECK(read.state.others.size() == 2);
  CHECK(read.state.others[1].communicator == 8);
}

TEST_CASE("parts of a gather from the wrong rank, round or place are refused") {
  const auto part = [](uint8_t round, uint32_t first, const std::vector<std::string>& blobs) {
    Writer w;
    w.u8(round);
    w.u32(first);
    w.u32(static_cast<uint32_t>(blobs.size()));
    for (const std::string& blob : blobs) w.text(blob);
    return w.take();
  };
  struct Row {
    int from;
    std::string message;
    bool ok;
  };
  const std::vector<Row> rows = {
      {3, part(0, 0, {"x"}), true},        {2, part(1, 0, {"x", "y"}), true},
      {2, part(1, 0, {"x"}), true},        {2, part(0, 0, {"x"}), false},
      {3, part(1, 0, {"x"}), false},       {3, part(0, 1, {"x"}), false},
      {3, part(7, 0, {"x"}), false},       {3, part(0, 0, {"x", "y"}), false},
      {0, part(2, 0, {"x"}), true},        {0, part(2, 0, {"x", "y"}), false},
      {3, part(0, 0, {"x"}) + "z", false}, {3, part(0, 0, {"x"}).substr(0, 9), false},
      {1, part(0, 0, {"x"}), false},
  };
  for (const Row& row : rows) {  // rank 4 of 5
    Gather gather(4, 5, 1);
    Reader in(row.message);
    CAPTURE(row.from, toHex(row.message.data(), row.message.size()));
    CHECK(gather.accept(row.from, in).ok() == row.ok);
  }
}
