#include <catch2/catch.hpp>

#include "src/base/config.hpp"
#include "src/base/log_once.hpp"
#include "src/base/nearest.hpp"
#include "src/base/seldom.hpp"
#include "src/base/text.hpp"
#include "src/base/wait_time.hpp"
#include "tests/support/said.hpp"

using namespace tutti;

TEST_CASE("sizes with suffixes parse and print") {
  struct Row {
    const char* text;
    bool ok;
    size_t bytes;
  };
  const auto row = GENERATE(values<Row>({{"0", true, 0},
                                         {"123", true, 123},
                                         {"64K", true, 65536},
                                         {"1m", true, 1 << 20},
                                         {"2G", true, size_t{2} << 30},
                                         {"3KiB", true, 3072},
                                         {"", false, 0},
                                         {"K", false, 0},
                                         {"1X", false, 0},
                                         {"-1", false, 0},
                                         {"99999999999999999999", false, 0},
                                         {"16777215T", true, size_t{16777215} << 40},
                                         {"16777216T", false, 0}}));
  CAPTURE(row.text);
  size_t bytes = 0;
  CHECK(parseBytes(row.text, &bytes) == row.ok);
  if (row.ok) CHECK(bytes == row.bytes);
}

TEST_CASE("spans of time are told in two digits or so") {
  CHECK(formatSpan(0) == "0 ms");
  CHECK(formatSpan(999'999'999) == "999 ms");
  CHECK(formatSpan(1'000'000'000) == "1.0 s");
  CHECK(formatSpan(2'560'000'000) == "2.5 s");
  CHECK(formatSpan(40'900'000'000) == "40 s");
}

TEST_CASE("hexadecimal goes there and back") {
  const unsigned char data[] = {0, 1, 0xfe, 0x7f};
  std::vector<unsigned char> back;
  REQUIRE(fromHex(toHex(data, 4), &back));
  CHECK(back == std::vector<unsigned char>(data, data + 4));
  CHECK_FALSE(fromHex("abc", &back));
  CHECK_FALSE(fromHex("zz", &back));
}

TEST_CASE("a variable that cannot be understood is an error that names it") {
  setenv("TUTTI_SLOTS", "many", 1);
  CHECK(checkConfig().message().find("TUTTI_SLOTS='many'") != std::string::npos);
  setenv("TUTTI_SLOTS", "1000", 1);
  CHECK(checkConfig().message().find("outside") != std::string::npos);
  unsetenv("TUTTI_SLOTS");
  CHECK(checkConfig().ok());
}

TEST_CASE("a mistyped name gets the nearest one, and a strange one gets none") {
  const std::vector<std::string> transports = {"self", "shm", "tcp", "verbs", "ucx"};
  CHECK(didYouMean("verb", transports) == " (did you mean verbs?)");
  CHECK(didYouMean("SHM", transports) == " (did you mean shm?)");
  CHECK(didYouMean("tpc", transports) == " (did you mean tcp?)");
  CHECK(didYouMean("vrebs", transports) == " (did you mean verbs?)");
  for (const char* strange : {"", "x", "nccl", "infiniband", "lo"}) {
    CAPTURE(strange);
    CHECK(didYouMean(strange, transports).empty());
  }
  CHECK(didYouMean(std::string(100000, 's'), transports).empty());
  CHECK(didYouMean("shm", {}).empty());
}

TEST_CASE("an unknown variable is refused with the one that was meant") {
  const auto refusal = [](const char* name) { return setDefault(name, "1").message(); };
  CHECK(refusal("TUTTI_TRANSPORT") ==
        "there is no variable 'TUTTI_TRANSPORT' (did you mean TUTTI_TRANSPORTS?); tutti-info --config lists them");
  CHECK(refusal("TUTTI_ALGORITHM").find("(did you mean TUTTI_ALGO?)") != std::string::npos);
  CHECK(refusal("TUTI_LOG") == "there is no variable 'TUTI_LOG'; tutti-info --config lists them");
  // The prefix that all have makes no two of them alike.
  CHECK(refusal("TUTTI_XQJZ") == "there is no variable 'TUTTI_XQJZ'; tutti-info --config lists them");
}

TEST_CASE("what goes on is said less and less often, with what was not said, and what begins again at once") {
  constexpr int64_t kSecond = 1000 * kMs;
  Seldom seldom;
  std::vector<std::pair<int64_t, uint64_t>> said;  // in which second, how often since
  for (int64_t second = 1; second <= 3600; ++second) {
    if (const uint64_t times = seldom.due(second * kSecond); times > 0) said.emplace_back(second, times);
  }
  REQUIRE(said.size() == 11);
  CHECK(said[0] == std::pair<int64_t, uint64_t>(1, 1));
  CHECK(said[1] == std::pair<int64_t, uint64_t>(11, 10));
  CHECK(said[2] == std::pair<int64_t, uint64_t>(31, 20));
  CHECK(said[10].first - said[9].first == 600);
  CHECK(seldom.take() == static_cast<uint64_t>(3600 - said[10].first));
  CHECK(seldom.take() == 0);
  CHECK(seldom.due(20'000 * kSecond) == 1);
  CHECK(seldom.due(20'011 * kSecond) == 1);
  CHECK(seldom.due(20'022 * kSecond) == 0);
}

TEST_CASE("what all ranks of a process find alike is said once, and each reason by itself") {
  const test::Said said;
  for (int rank = 0; rank < 4; ++rank) {
    TUTTI_WARN_ONCE("base", "not used: no such library");
    TUTTI_WARN_ONCE("base", "not used: too old");
  }
  TUTTI_WARN_ONCE("text", "not used: too old");
  CHECK(said.times("base: not used: no such library") == 1);
  CHECK(said.times("base: not used: too old") == 1);
  CHECK(said.times("text: not used: too old") == 1);
}

TEST_CASE("a pause counts for twice as long as it was to be, and a millisecond, at most") {
  WaitTime time(Deadline::at(1'000 * kMs), 900 * kMs);
  CHECK_FALSE(time.over());
  CHECK(time.look(950 * kMs) == 50 * kMs);  // before the first pause nothing counts
  CHECK(time.end().ns() == 1'050 * kMs);
  CHECK(time.pauseNs(10 * kMs) == 10 * kMs);
  CHECK(time.look(962 * kMs) == 0);
  CHECK(time.end().ns() == 1'050 * kMs);
  (void)time.pauseNs(10 * kMs);
  CHECK(time.look(5'000 * kMs) == 4'017 * kMs);  // stopped
  CHECK_FALSE(time.over());
  CHECK(time.end().ns() == 5'067 * kMs);
  CHECK(time.pauseNs(100 * kMs) == 67 * kMs);  // no longer than what is left
  CHECK(time.look(5'067 * kMs) == 0);
  CHECK(time.over());

  WaitTime longWait(Deadline::never(), 0);
  (void)longWait.pauseNs(10 * kMs);
  (void)longWait.look(1'000'000'000 * kMs);
  CHECK_FALSE(longWait.over());
  CHECK(longWait.end().ns() == Deadline::never().ns());
}
