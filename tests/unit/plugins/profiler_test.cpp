// What profiler plugins hear of calls: by plugins that hold their caller to the rules (tests/support/profiler_plugin).
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/support/collective_check.hpp"
#include "tests/support/profiler_plugin/profiler_plugin.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/variable.hpp"

namespace tutti {
namespace {

using test::failed;
using test::onRanks;
using test::profilerPluginLines;
using test::profilerPluginPath;
using test::Rank;
using test::Variable;
using Lines = std::vector<std::string>;

/// Of rank `rank` whose rest begins with `what`, that rest.
Lines linesOf(const Lines& all, int rank, const std::string& what) {
  const std::string head = "rank " + std::to_string(rank) + " ";
  Lines found;
  for (const std::string& line : all) {
    if (line.starts_with(head + what)) found.push_back(line.substr(head.size()));
  }
  return found;
}

size_t complaints(const Lines& lines) {
  return static_cast<size_t>(
      std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("complaint: "); }));
}

bool has(const std::string& line, const std::string& part) { return line.find(part) != std::string::npos; }

/// Three AllReduces of the same kind, which would go by the fast path, a group of messages, and one of both.
std::string makeCalls(const Rank& r) {
  std::vector<float> in(5000, 1), out(5000);
  for (int i = 0; i < 3; ++i)
    RANK_TRY(tuttiAllReduce(in.data(), out.data(), in.size(), tuttiFloat32, tuttiSum, r.comm, nullptr));
  RANK_CHECK(out[4999] == static_cast<float>(r.nRanks));
  const int next = (r.rank + 1) % r.nRanks, prev = (r.rank + r.nRanks - 1) % r.nRanks;
  for (const bool both : {false, true}) {
    RANK_TRY(tuttiGroupStart());
    RANK_TRY(tuttiSend(in.data(), 100, tuttiFloat32, next, r.comm, nullptr));
    RANK_TRY(tuttiRecv(out.data(), 100, tuttiFloat32, prev, r.comm, nullptr));
    if (both) RANK_TRY(tuttiBroadcast(in.data(), in.data(), 7, tuttiFloat32, 1, r.comm, nullptr));
    RANK_TRY(tuttiGroupEnd());
  }
  RANK_TRY(tuttiSend(in.data(), 0, tuttiFloat32, next, r.comm, nullptr));
  return "";
}

void checkRank(const Lines& lines, int rank, bool hasApi) {
  CAPTURE(rank);
  const Lines collectives = linesOf(lines, rank, "coll ");
  REQUIRE(collectives.size() == 4);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(collectives[i].starts_with("coll AllReduce seq=" + std::to_string(i + 1) + " count=5000 type=ncclFloat32"));
    CHECK(has(collectives[i], " channels=2 "));
    CHECK(has(collectives[i], " algo=RING proto=SIMPLE"));
    CHECK(has(collectives[i], hasApi ? " in collapi" : " in group"));
  }
  CHECK(collectives[3].starts_with("coll Broadcast seq=4 count=7 type=ncclFloat32 root=1"));
  const Lines messages = linesOf(lines, rank, "p2p ");
  REQUIRE(messages.size() == 4);
  CHECK(std::ranges::count_if(messages, [](const std::string& m) { return m.starts_with("p2p Send count=100"); }) == 2);
  CHECK(has(messages[0], hasApi ? " in p2papi" : " in group"));
  // Channels: two of each collective, one of each message.
  const Lines channels = linesOf(lines, rank, "kernelch ");
  CHECK(channels.size() == 4 * 2 + 4);
  CHECK(std::ranges::all_of(channels, [](const std::string& c) { return has(c, " state=22 in "); }));
  // One group for each call outside of groups, and for each group.
  CHECK(linesOf(lines, rank, "group").size() == (hasApi ? 6 + 6 : 6));
  const Lines groups = linesOf(lines, rank, "groupapi ");
  CHECK(std::ranges::count(groups, "groupapi depth=2 state=23 state=24") == (hasApi ? 2 : 0));
  CHECK(std::ranges::count(groups, "groupapi depth=1 state=23 state=24") == (hasApi ? 3 : 0));
  CHECK(std::ranges::count(groups, "groupapi depth=1 state=23") == (hasApi ? 1 : 0));  // the message without bytes
}

TEST_CASE("a profiler plugin hears of every call, in every version") {
  const int version = GENERATE(4, 5, 6);
  const int nRanks = GENERATE(2, 3);
  CAPTURE(version, nRanks);
  const Variable plugin("TUTTI_PROFILER_PLUGIN", profilerPluginPath(version));
  const Variable calibration("TUTTI_CALIBRATION", "off");
  const Variable algorithm("TUTTI_ALGO", "allreduce:ring");
  const Variable protocol("TUTTI_PROTO", "slots");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.nChannels = 2;
  config.commName = "observed";
  (void)profilerPluginLines(version);
  CHECK(onRanks(nRanks, makeCalls, &config) == "");
  const Lines lines = profilerPluginLines(version);
  for (const std::string& line : lines) {
    if (line.starts_with("complaint: ")) UNSCOPED_INFO(line);
  }
  CHECK(complaints(lines) == 0);
  std::set<std::string> inits;
  for (int rank = 0; rank < nRanks; ++rank) {
    checkRank(lines, rank, version > 4);
    const Lines init = linesOf(lines, rank, "init");
    REQUIRE(init.size() == 1);
    CHECK(init[0].starts_with("init name=observed nodes=1 ranks=" + std::to_string(nRanks) + " number="));
    inits.insert(init[0]);
  }
  CHECK(inits.size() == 1);  // one number for all ranks
}

TEST_CASE("communicators have numbers of their own for plugins") {
  const Variable plugin("TUTTI_PROFILER_PLUGIN", profilerPluginPath(6));
  (void)profilerPluginLines(6);
  CHECK(onRanks(2, [](const Rank& r) -> std::string {
          tuttiComm_t child = nullptr;
          RANK_TRY(tuttiCommSplit(r.comm, 0, r.rank, &child, nullptr));
          RANK_TRY(tuttiBarrier(child, nullptr));
          RANK_TRY(tuttiCommDestroy(child));
          return "";
        }) == "");
  const Lines lines = profilerPluginLines(6);
  CHECK(complaints(lines) == 0);
  const Lines inits = linesOf(lines, 0, "init");
  REQUIRE(inits.size() == 2);
  CHECK(inits[0] != inits[1]);
}

TEST_CASE("a profiler plugin hears of what it asks for, and of its parents") {
  struct Row {
    const char* mask;
    std::set<std::string> kinds;
  };
  const auto row = GENERATE(values<Row>({{"0", {}},
                                         {"2", {"init", "coll", "collapi", "group", "groupapi"}},
                                         {"4", {"init", "p2p", "p2papi", "group", "groupapi"}},
                                         {"256", {"init", "groupapi"}},
                                         {"512", {"init", "groupapi", "collapi"}}}));
  CAPTURE(row.mask);
  const Variable plugin("TUTTI_PROFILER_PLUGIN", profilerPluginPath(6));
  const Variable mask("PROFILER_PLUGIN_MASK", row.mask);
  (void)profilerPluginLines(6);
  CHECK(onRanks(2, makeCalls) == "");
  const Lines lines = profilerPluginLines(6);
  CHECK(complaints(lines) == 0);
  std::set<std::string> kinds;
  for (const std::string& line : linesOf(lines, 0, "")) kinds.insert(line.substr(0, line.find(' ')));
  if (std::string(row.mask) == "0") kinds.erase("init");
  CHECK(kinds == row.kinds);
}

TEST_CASE("traffic over sockets is told by channel and peer") {
  const Variable plugin("TUTTI_PROFILER_PLUGIN", profilerPluginPath(6));
  const Variable transports("TUTTI_TRANSPORTS", "self,tcp");
  (void)profilerPluginLines(6);
  CHECK(onRanks(2, makeCalls) == "");
  const Lines lines = profilerPluginLines(6);
  CHECK(complaints(lines) == 0);
  const Lines traffic = linesOf(lines, 0, "proxyop ");
  const auto in = [&](const char* kind, const char* way) {
    return std::ranges::count_if(traffic, [&](const std::string& t) {
      return has(t, " peer=1 ") && has(t, way) && t.ends_with(std::string(" state=19 in ") + kind);
    });
  };
  CHECK(in("coll", " send=1 ") >= 3);
  CHECK(in("coll", " send=0 ") >= 3);
  CHECK(in("p2p", " send=1 ") == 2);
  CHECK(in("p2p", " send=0 ") == 2);
}

TEST_CASE("every collective and v form keeps a plugin's rules, on streams too") {
  const Variable plugin("TUTTI_PROFILER_PLUGIN", profilerPluginPath(6));
  (void)profilerPluginLines(6);
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          test::CheckOptions options;
          options.count = 1001;
          if (std::string why = test::checkEverything(r, options); !why.empty()) return why;
          tuttiStream_t stream = nullptr;
          RANK_TRY(tuttiStreamCreate(&stream));
          std::vector<int> data(100, 1);
          for (int i = 0; i < 3; ++i)
            RANK_TRY(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiInt32, tuttiMax, r.comm, stream));
          RANK_TRY(tuttiStreamSynchronize(stream));
          return failed(tuttiStreamDestroy(stream), "destroy a stream");
        }) == "");
  const Lines lines = profilerPluginLines(6);
  CHECK(complaints(lines) == 0);
  for (const char* call : {"AlltoAll ", "AllToAllv ", "Barrier ", "ReduceScatter "})
    CHECK(!linesOf(lines, 1, std::string("coll ") + call).empty());
  CHECK(linesOf(lines, 2, "coll ").size() == linesOf(lines, 0, "coll ").size());
}

TEST_CASE("events of calls that fail end all the same") {
  const Variable plugin("TUTTI_PROFILER_PLUGIN", profilerPluginPath(6));
  (void)profilerPluginLines(6);
  CHECK(onRanks(2, [](const Rank& r) -> std::string {
          float x = 1;
          const auto dtype = r.rank == 0 ? tuttiFloat32 : tuttiInt32;  // they disagree
          RANK_CHECK(tuttiAllReduce(&x, &x, 1, dtype, tuttiSum, r.comm, nullptr) != tuttiSuccess);
          return "refused";
        }).find("rank 1: refused") != std::string::npos);
  const Lines lines = profilerPluginLines(6);
  CHECK(complaints(lines) == 0);
  CHECK(linesOf(lines, 0, "groupapi ").size() == 1);
}

TEST_CASE("a profiler plugin that cannot be used is an error that says why") {
  struct Row {
    std::string name;
    const char* fault;
    const char* says;
  };
  const auto row = GENERATE(
      values<Row>({{"/nonexistent/libx.so", "", "TUTTI_PROFILER_PLUGIN=/nonexistent/libx.so: cannot be loaded"},
                   {"nosuch", "", "libnccl-profiler-nosuch.so can be loaded"},
                   {"libm.so.6", "", "exports none of ncclProfiler_v6, ncclProfiler_v5, ncclProfiler_v4"},
                   {profilerPluginPath(6), "init", "Events for tests: init gave code 3"}}));
  CAPTURE(row.name);
  const Variable plugin("TUTTI_PROFILER_PLUGIN", row.name);
  const Variable fault("PROFILER_PLUGIN_FAULT", row.fault);
  const std::string why = onRanks(2, [](const Rank&) { return std::string("joined"); });
  CHECK(why.find(row.says) != std::string::npos);
  CHECK(why.find("joined") == std::string::npos);
}

TEST_CASE("a profiler plugin that is switched off is left alone") {
  const Variable plugin("TUTTI_PROFILER_PLUGIN", profilerPluginPath(6));
  const Variable fault("PROFILER_PLUGIN_FAULT", "off");
  (void)profilerPluginLines(6);
  CHECK(onRanks(2, makeCalls) == "");
  CHECK(profilerPluginLines(6).empty());
}

TEST_CASE("no profiler plugin is loaded where none is wanted") {
  const Variable plugin("TUTTI_PROFILER_PLUGIN", "none");
  CHECK(onRanks(2, makeCalls) == "");
}

}  // namespace
}  // namespace tutti
