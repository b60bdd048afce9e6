#include <catch2/catch.hpp>

#include "src/base/config.hpp"
#include "src/base/fingerprint.hpp"
#include "src/base/text.hpp"

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

TEST_CASE("hexadecimal goes there and back") {
  const unsigned char data[] = {0, 1, 0xfe, 0x7f};
  std::vector<unsigned char> back;
  REQUIRE(fromHex(toHex(data, 4), &back));
  CHECK(back == std::vector<unsigned char>(data, data + 4));
  CHECK_FALSE(fromHex("abc", &back));
  CHECK_FALSE(fromHex("zz", &back));
}

TEST_CASE("a fingerprint keeps every part of its call") {
  const CallParts parts{.sequence = 0xabcdef, .kind = 3, .dtype = 14, .op = 11, .root = 0xfffffe, .count = 1ull << 40};
  const CallParts back = partsOf(makeFingerprint(parts));
  CHECK(back.sequence == parts.sequence);
  CHECK(back.kind == parts.kind);
  CHECK(back.dtype == parts.dtype);
  CHECK(back.op == parts.op);
  CHECK(back.root == parts.root);
  CHECK(back.count == parts.count);
  CHECK(describeCall(makeFingerprint({.sequence = 17, .kind = 0, .dtype = 7, .op = 0, .root = 0, .count = 5})) ==
        "AllReduce number 17 (count 5, float, sum)");
  const uint32_t allGather = static_cast<uint32_t>(Collective::AllGather);
  CHECK(describeCall(makeFingerprint({.sequence = 3, .kind = allGather + kKindCounts, .dtype = 7, .count = 0x1f3a})) ==
        "AllGatherv number 3 (counts with checksum 1f3a, float)");
  const uint32_t allToAll = static_cast<uint32_t>(Collective::AllToAll);
  CHECK(describeCall(makeFingerprint({.sequence = 4, .kind = allToAll + kKindCounts, .dtype = 7})) ==
        "AllToAllv number 4 (float)");
}

TEST_CASE("a variable that cannot be understood is an error that names it") {
  setenv("TUTTI_SLOTS", "many", 1);
  CHECK(checkConfig().message().find("TUTTI_SLOTS='many'") != std::string::npos);
  setenv("TUTTI_SLOTS", "1000", 1);
  CHECK(checkConfig().message().find("outside") != std::string::npos);
  unsetenv("TUTTI_SLOTS");
  CHECK(checkConfig().ok());
}
