#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "perf/common/line_plot.hpp"
#include "perf/common/plot.hpp"
#include "perf/common/report.hpp"
#include "perf/common/table.hpp"

using namespace tutti::perf;

namespace {

Options plainOptions() {
  Options o;
  o.ops = {*findOp("sum")};
  o.types = {*findType("float")};
  o.minBytes = 8;
  o.maxBytes = 1 << 20;
  o.stepFactor = 2;
  return o;
}

Row exampleRow() {
  Row row;
  row.bytes = 1048576;
  row.count = 262144;
  row.type = "float";
  row.op = "sum";
  row.outOfPlace = Measurement{.timeUs = 123.456, .algbw = 8.4935, .busbw = 8.4935, .wrong = 0};
  row.inPlace = Measurement{.timeUs = 98765.4, .algbw = 0.01, .busbw = 0.01, .wrong = 12};
  row.expected = Expectation{100.25, "ring", "direct", 2};
  row.iterations = 20;
  return row;
}

const std::vector<RankLine> kRanks = {{0, 0, 4711, 0, "node1", "Some Processor"},
                                      {1, 0, 4711, 1, "node1", "Some Processor"}};

}  // namespace

TEST_CASE("numbers fit their column") {
  struct Row {
    double value;
    int width;
    const char* text;
  };
  const auto row = GENERATE(values<Row>({{0, 7, "   0.00"},
                                         {0.5, 7, "   0.50"},
                                         {9999.5, 7, "9999.50"},
                                         {12345.67, 7, "12345.7"},
                                         {123456.7, 7, " 123457"},
                                         {1234567, 7, "1234567"},
                                         {12345678, 7, "  1e+07"},
                                         {3.25, 6, "  3.25"},
                                         {999.25, 6, "999.25"},
                                         {1234.5, 6, "1234.5"},
                                         {123456, 6, "123456"},
                                         {1234567, 6, " 1e+06"}}));
  CHECK(fitNumber(row.value, row.width) == row.text);
}

TEST_CASE("a row is printed field for field like nccl-tests'") {
  CHECK(rowText(exampleRow(), plainOptions()) ==
        "     1048576        262144     float     sum      -1   123.46    8.49    8.49       0"
        "  98765.4    0.01    0.01      12   100.25  ring/direct/2\n");
  Row row = exampleRow();
  row.op = "none";
  row.root = 3;
  row.outOfPlace->wrong.reset();
  row.inPlace.reset();
  row.expected.reset();
  CHECK(rowText(row, plainOptions()) ==
        "     1048576        262144     float    none       3   123.46    8.49    8.49     N/A"
        "      N/A     N/A     N/A     N/A      N/A  N/A\n");
}

TEST_CASE("a row has nccl-tests' 13 fields, and further ones behind them") {
  Options o = plainOptions();
  std::istringstream plain(rowText(exampleRow(), o));
  std::vector<std::string> fields{std::istream_iterator<std::string>(plain), {}};
  CHECK(fields.size() == 13 + 2);
  CHECK(fields[5] == "123.46");
  CHECK(fields[12] == "12");
  CHECK(fields[14] == "ring/direct/2");
  o.perIteration = true;
  std::istringstream wide(rowText(exampleRow(), o));
  CHECK(std::distance(std::istream_iterator<std::string>(wide), {}) == 21 + 2);
}

TEST_CASE("the header is what scripts look for") {
  CHECK(
      headerText(kAllReduce, plainOptions(), kRanks, 100) ==
      "# tutti-tests version 0.1.0 tutti-headers=100 tutti-library=100\n"
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 "
      "validation: 1 graph: 0\n"
      "#\n"
      "# Using devices\n"
      "#  Rank  0 Group  0 Pid   4711 on      node1 device  0 [host memory] Some Processor\n"
      "#  Rank  1 Group  0 Pid   4711 on      node1 device  1 [host memory] Some Processor\n"
      "#\n"
      "#                                                              out-of-place                   in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
      "#wrong   expect  plan\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s) "
      "            (us)\n");
}

TEST_CASE("the footer tells wrong data and too little bandwidth") {
  unsetenv("NCCL_TESTS_MIN_BW");
  Row right = exampleRow();
  right.inPlace->wrong = 0;
  const Summary good = summarize({right});
  CHECK(good.averageBusbw == Approx((8.4935 + 0.01) / 2));
  CHECK(footerText(kAllReduce, plainOptions(), good, 0) ==
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 4.25175 \n#\n"
        "# Collective test concluded: all_reduce_perf\n#\n");
  CHECK(footerText(kAllReduce, plainOptions(), summarize({exampleRow()}), 0)
            .starts_with("# Out of bounds values : 12 FAILED\n"));
  setenv("NCCL_TESTS_MIN_BW", "4.5", 1);
  CHECK(summarize({right}).bandwidthOk());  // 0.9 of it is enough
  setenv("TUTTI_TESTS_MIN_BW", "5", 1);
  CHECK_FALSE(summarize({right}).bandwidthOk());
  CHECK(footerText(kAllReduce, plainOptions(), summarize({right}), 0).find("4.25175 FAILED") != std::string::npos);
  unsetenv("TUTTI_TESTS_MIN_BW");
  unsetenv("NCCL_TESTS_MIN_BW");
}

TEST_CASE("sizes, counts and bandwidths follow nccl-tests' formulas") {
  struct Row {
    const Collective* collective;
    size_t rowBytes, count;  // of 4 MiB and 4 ranks, float
    double algbw, busbw;     // at 1000 us
  };
  const double s = 4.194304;
  const std::vector<Row> rows = {
      {&kAllReduce, 4 << 20, 1 << 20, s, s * 1.5},
      {&kAllGather, 4 << 20, 1 << 18, s, s * .75},
      {&kReduceScatter, 4 << 20, 1 << 18, s, s * .75},
      {&kAllToAll, 4 << 20, 1 << 18, s, s * .75},
      {&kBroadcast, 4 << 20, 1 << 20, s, s},
      {&kReduce, 4 << 20, 1 << 20, s, s},
      {&kGather, 4 << 20, 1 << 18, s, s * .75},
      {&kScatter, 4 << 20, 1 << 18, s, s * .75},
      {&kSendRecv, 4 << 20, 1 << 20, s, s},
      {&kHyperCube, 4 << 20, 1 << 18, s * .75, s * .75},
  };
  for (const Row& row : rows) {
    CAPTURE(row.collective->name);
    const Layout l = row.collective->layout({.nRanks = 4, .rank = 1, .bytes = 4 << 20, .elementBytes = 4});
    CHECK(l.rowBytes == row.rowBytes);
    CHECK(l.count == row.count);
    Measurement m{.timeUs = 1000};
    computeBandwidth(*row.collective, l, 4, &m);
    CHECK(m.algbw == Approx(row.algbw));
    CHECK(m.busbw == Approx(row.busbw));
  }
}

TEST_CASE("a rank's share is rounded down to 16 bytes") {
  CHECK(kAllGather.layout({.nRanks = 3, .bytes = 1000, .elementBytes = 4}).count == 80);
  CHECK(kAllGather.layout({.nRanks = 3, .bytes = 1000, .elementBytes = 8}).count == 40);
  CHECK(kAllGather.layout({.nRanks = 3, .bytes = 40, .elementBytes = 1}).count == 0);
}

TEST_CASE("the ranks of alltoallv agree on who sends how much to whom") {
  for (bool inPlace : {false, true}) {
    for (int a = 0; a < 5; ++a) {
      const Vectors va = kAllToAllv.vectors({.nRanks = 5, .rank = a, .bytes = 1 << 16, .inPlace = inPlace});
      for (int b = 0; b < 5; ++b) {
        const Vectors vb = kAllToAllv.vectors({.nRanks = 5, .rank = b, .bytes = 1 << 16, .inPlace = inPlace});
        CHECK(va.sendCounts[toSize(b)] == vb.recvCounts[toSize(a)]);
      }
      if (inPlace) CHECK(va.sendCounts == va.recvCounts);
    }
  }
}

TEST_CASE("the spread of single calls") {
  std::vector<double> times;
  for (int i = 1; i <= 200; ++i) times.push_back(i);
  const Spread s = spreadOf(times);
  CHECK(s.minUs == 1);
  CHECK(s.maxUs == 200);
  CHECK(s.p99Us == 198);
  CHECK(s.cvPercent == Approx(57.4).epsilon(0.01));
  CHECK(spreadOf({}).maxUs == 0);
}

TEST_CASE("the JSON has nccl-tests' fields and no secrets") {
  setenv("TUTTI_UNIQUE_ID", "5ec4e7", 1);
  setenv("TUTTI_LOG", "warn", 1);
  RunRecord run{.startTime = "a",
                .endTime = "b",
                .arguments = {"all_reduce_perf", "-b", "8"},
                .ranks = kRanks,
                .libraryVersion = 100,
                .rows = {exampleRow()},
                .errors = {}};
  const std::string text = jsonText(kAllReduce, plainOptions(), run);
  unsetenv("TUTTI_UNIQUE_ID");
  CHECK(text.find("5ec4e7") == std::string::npos);
  const auto j = nlohmann::json::parse(text);
  CHECK(j["version"] == 3);
  CHECK(j["tutti_version"] == "0.1.0");
  CHECK(j["config"]["step_factor"] == 2);
  CHECK(j["config"]["devices"].size() == 2);
  CHECK(j["config"]["devices"][1]["hostname"] == "node1");
  const auto& r = j["results"][0];
  CHECK(r["size"] == 1048576);
  CHECK(r["redop"] == "sum");
  CHECK(r["out_of_place"]["time"] == Approx(123.456));
  CHECK(r["in_place"]["nwrong"] == 12);
  CHECK(r["expected"]["time"] == Approx(100.25));
  CHECK(r["expected"]["algorithm"] == "ring");
  CHECK(r["experiment_name"] == "all_reduce_perf");
  CHECK(j["out_of_bounds"]["count"] == 12);
  CHECK(j["out_of_bounds"]["okay"] == false);
  CHECK(j["average_bus_bandwidth"]["bandwidth"] == Approx(4.25175));
  for (const char* key : {"start_time", "end_time", "args", "env", "nccl_version", "errors"}) CHECK(j.contains(key));
}

TEST_CASE("ticks are round numbers that reach the top") {
  CHECK(niceTicks(8.5, 8) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(niceTicks(7.9, 8).back() == 8);
  CHECK(niceTicks(0, 5).size() > 1);
}

TEST_CASE("values are read with the unit that suits them") {
  CHECK(readable(1e7, "us") == "10 s");
  CHECK(readable(2500, "us") == "2.5 ms");
  CHECK(readable(12.5, "us") == "12.5 us");
  CHECK(readable(0.25, "us") == "250 ns");
  CHECK(readable(0.002, "GB/s") == "2 MB/s");
  CHECK(readable(12, "GB/s") == "12 GB/s");
  CHECK(readable(1000, "GB/s") == "1 TB/s");
  CHECK(readable(1e-7, "GB/s") == "100 B/s");
  CHECK(readable(7, "hops") == "7 hops");
}

TEST_CASE("a picture has the expected line and the band of what was measured") {
  Row row = exampleRow();
  const std::string plain = plotSvg(kAllReduce, plainOptions(), {row}, kRanks);
  CHECK(plain.find("expected") != std::string::npos);
  CHECK(plain.find("<polygon") == std::string::npos);
  CHECK(plain.find("shaded") == std::string::npos);
  row.outOfPlace->spread.p10Us = row.outOfPlace->timeUs / 2;
  row.outOfPlace->spread.p90Us = row.outOfPlace->timeUs * 2;
  const std::string banded = plotSvg(kAllReduce, plainOptions(), {row}, kRanks);
  CHECK(banded.find("<polygon") != std::string::npos);
  CHECK(banded.find("shaded: 8 of 10 calls") != std::string::npos);
  row.expected.reset();
  CHECK(plotSvg(kAllReduce, plainOptions(), {row}, kRanks).find("expected") == std::string::npos);
}

TEST_CASE("percentiles are values that so many of the calls did not exceed") {
  std::vector<double> times;
  for (int i = 100; i > 0; --i) times.push_back(i);
  const Spread s = spreadOf(times);
  CHECK(s.p10Us == 10);
  CHECK(s.p90Us == 90);
  CHECK(s.p99Us == 99);
  CHECK(spreadOf({3}).p10Us == 3);
}

TEST_CASE("the header and the plot say what memory was measured") {
  struct Row {
    int registration;
    bool adopt;
    const char* memory;
  };
  const auto row = GENERATE(
      values<Row>({{0, false, "malloc"}, {1, false, "tuttiMemAlloc, registered"}, {0, true, "malloc, registered"}}));
  Options o = plainOptions();
  o.registration = row.registration;
  o.adopt = row.adopt;
  CAPTURE(row.memory);
  const std::string memory = std::string("of ") + row.memory;
  const std::string header = headerText(kAllReduce, o, kRanks, 100);
  CHECK(plotSvg(kAllReduce, o, {exampleRow()}, kRanks).find(", host memory " + memory + "<") != std::string::npos);
  CHECK((header.find("# buffers: " + memory + "\n") != std::string::npos) == (o.adopt || o.registration > 0));
}

TEST_CASE("the plot is well formed, whatever the names") {
  std::vector<RankLine> ranks = kRanks;
  ranks[0].host = ranks[1].host = "a<b&c";
  const std::string svg = plotSvg(kAllReduce, plainOptions(), {exampleRow()}, ranks);
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("a&lt;b&amp;c") != std::string::npos);
  CHECK(svg.find("GB/s") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(plotSvg(kAllReduce, plainOptions(), {}, ranks).find("inf") == std::string::npos);
}
