// What tuner plugins can have: by plugins that read NCCL's example's lines (tests/support/tuner_plugin), as profiler
// plugins (tests/support/profiler_plugin) see it on every rank.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "tests/support/profiler_plugin/profiler_plugin.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/said.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/tuner_plugin/tuner_plugin.hpp"
#include "tests/support/variable.hpp"

namespace tutti {
namespace {

using test::failed;
using test::onRanks;
using test::profilerPluginLines;
using test::Rank;
using test::tunerPluginCount;
using test::tunerPluginPath;
using test::Variable;

/// Ranks whose calls are seen, with a file for their tuner plugin.
struct Tuned {
  explicit Tuned(const std::string& lines, int version = 6)
      : plugin("TUTTI_TUNER_PLUGIN", tunerPluginPath(version)),
        seen("TUTTI_PROFILER_PLUGIN", test::profilerPluginPath(6)),
        file("NCCL_TUNER_CONFIG_FILE", folder.path() + "/lines.csv"),
        calibration("TUTTI_CALIBRATION", "off") {
    std::ofstream(folder.path() + "/lines.csv") << lines;
    (void)profilerPluginLines(6);
  }
  /// How the calls went, each "AllReduce channels=1 algo=RING proto=SIMPLE"; "complaint ..." where ranks differ.
  static std::vector<std::string> ways(int nRanks) {
    const std::vector<std::string> lines = profilerPluginLines(6);
    std::vector<std::string> first;
    for (int rank = 0; rank < nRanks; ++rank) {
      const std::string head = "rank " + std::to_string(rank) + " coll ";
      std::vector<std::string> mine;
      for (const std::string& line : lines) {
        if (!line.starts_with(head)) continue;
        const std::string name = line.substr(head.size(), line.find(' ', head.size()) - head.size());
        const size_t from = line.find(" channels="), to = line.find(" in ");
        mine.push_back(name + line.substr(from, to - from));
      }
      if (rank == 0) first = mine;
      if (mine != first) return {"complaint: rank " + std::to_string(rank) + " differs from rank 0"};
    }
    return first;
  }

  test::TempFolder folder;
  Variable plugin, seen, file, calibration;
};

std::string reduceAll(const Rank& r, size_t count) {
  std::vector<float> in(count, 1), out(count);
  RANK_TRY(tuttiAllReduce(in.data(), out.data(), count, tuttiFloat32, tuttiSum, r.comm, nullptr));
  RANK_CHECK(out[count - 1] == static_cast<float>(r.nRanks));
  return "";
}

TEST_CASE("what a tuner plugin sets cheapest is taken, in every version") {
  const int version = GENERATE(4, 5, 6);
  CAPTURE(version);
  struct Row {
    const char* lines;
    size_t count;
    const char* way;
  };
  const auto row = GENERATE(values<Row>({
      {"allreduce,0,4294967295,tree,simple,2,-1,-1\n", 5000, "AllReduce channels=2 algo=TREE proto=SIMPLE"},
      {"allreduce,0,4294967295,ring,simple,3,-1,-1\n", 5000, "AllReduce channels=3 algo=RING proto=SIMPLE"},
      {"# small\nallreduce,0,99,ring,ll,1,1,4\nallreduce,100,4294967295,tree,simple,1,1,4\n", 8,
       "AllReduce channels=1 algo=RING proto=LL"},
      {"allreduce,0,99,ring,ll,1,1,4\nallreduce,100,4294967295,tree,simple,1,1,4\n", 4000,
       "AllReduce channels=1 algo=TREE proto=SIMPLE"},
      {"allreduce,0,4294967295,nvls,simple,1,-1,-1\nallreduce,0,4294967295,tree,simple,1,-1,-1,1,0\n", 4000,
       "AllReduce channels=1 algo=TREE proto=SIMPLE"},
  }));
  CAPTURE(row.lines);
  const Tuned tuned(row.lines, version);
  // No protocol but slots and inline messages between these, so that SIMPLE is slots.
  const Variable direct("TUTTI_TRANSPORTS", std::string(row.way).ends_with("LL") ? "" : "self,tcp");
  CHECK(onRanks(4, [&](const Rank& r) { return reduceAll(r, row.count); }) == "");
  CHECK(Tuned::ways(4) == std::vector<std::string>{row.way});
  CHECK(tunerPluginCount(version, "Alive") == 0);
}

TEST_CASE("a tuner plugin is asked of the five collectives that NCCL tunes, in NCCL's bytes") {
  const Tuned tuned(
      "allgather,3000,3000,pat,simple,1,-1,-1\nreducescatter,3000,3000,pat,simple,1,-1,-1\n"
      "broadcast,1000,1000,ring,simple,2,-1,-1\nreduce,1000,1000,ring,simple,2,-1,-1\n");
  const Variable transports("TUTTI_TRANSPORTS", "self,tcp");
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          std::vector<int8_t> a(3000, 1), b(3000);
          RANK_TRY(tuttiAllGather(a.data(), b.data(), 1000, tuttiInt8, r.comm, nullptr));
          RANK_TRY(tuttiReduceScatter(a.data(), b.data(), 1000, tuttiInt8, tuttiSum, r.comm, nullptr));
          RANK_TRY(tuttiBroadcast(a.data(), b.data(), 1000, tuttiInt8, 0, r.comm, nullptr));
          RANK_TRY(tuttiReduce(a.data(), b.data(), 1000, tuttiInt8, tuttiSum, 1, r.comm, nullptr));
          return "";
        }) == "");
  CHECK(Tuned::ways(3) == std::vector<std::string>{"AllGather channels=1 algo=PAT proto=SIMPLE",
                                                   "ReduceScatter channels=1 algo=PAT proto=SIMPLE",
                                                   "Broadcast channels=2 algo=CHAIN proto=SIMPLE",
                                                   "Reduce channels=2 algo=CHAIN proto=SIMPLE"});
}

TEST_CASE("a call of a kind is asked about once") {
  const Tuned tuned("allreduce,0,4294967295,tree,simple,1,-1,-1\n");
  const int before = tunerPluginCount(6, "Asked");
  CHECK(onRanks(2, [](const Rank& r) -> std::string {
          for (const size_t count : {10, 10, 20, 10, 20}) {
            if (std::string why = reduceAll(r, count); !why.empty()) return why;
          }
          return "";
        }) == "");
  CHECK(tunerPluginCount(6, "Asked") == before + 2);
}

TEST_CASE("ranks choose alike whatever a tuner plugin does") {
  const Tuned tuned("");
  const Variable whim("TUNER_PLUGIN_WHIM", "1");
  const int nRanks = GENERATE(2, 3, 4);
  CAPTURE(nRanks);
  CHECK(onRanks(nRanks, [](const Rank& r) -> std::string {
          for (size_t count = 1; count <= 3000; count *= 3) {
            if (std::string why = reduceAll(r, count); !why.empty()) return why;
          }
          RANK_TRY(tuttiGroupStart());
          std::vector<int> a(1000, 1), b(4000);
          RANK_TRY(tuttiAllGather(a.data(), b.data(), 1000, tuttiInt32, r.comm, nullptr));
          RANK_TRY(tuttiBroadcast(a.data(), a.data(), 1000, tuttiInt32, 0, r.comm, nullptr));
          RANK_TRY(tuttiAllReduce(a.data(), a.data(), 1000, tuttiInt32, tuttiMax, r.comm, nullptr));
          return failed(tuttiGroupEnd(), "a group", r.comm);
        }) == "");
  const std::vector<std::string> ways = Tuned::ways(nRanks);
  CHECK(ways.size() == 11);
  CHECK(std::set<std::string>(ways.begin(), ways.end()).size() > 3);
}

TEST_CASE("what the user asks for comes before what a tuner plugin wants") {
  const Tuned tuned("allreduce,0,4294967295,tree,simple,3,-1,-1\n");
  const Variable transports("TUTTI_TRANSPORTS", "self,tcp");
  const Variable algorithm("TUTTI_ALGO", "allreduce:ring");
  const Variable channels("TUTTI_NCHANNELS", "2");
  CHECK(onRanks(2, [](const Rank& r) { return reduceAll(r, 1000); }) == "");
  CHECK(Tuned::ways(2) == std::vector<std::string>{"AllReduce channels=2 algo=RING proto=SIMPLE"});
}

TEST_CASE("a tuner plugin that fails in a call leaves it to the planner, and says so") {
  const Tuned tuned("");
  const Variable fault("TUNER_PLUGIN_FAULT", "getCollInfo");
  const test::Said said;
  CHECK(onRanks(2, [](const Rank& r) { return reduceAll(r, 1000); }) == "");
  CHECK(said.times("Lines for tests: getCollInfo gave code 3 for allreduce of 4000 bytes on 2 ranks") == 1);
}

TEST_CASE("a tuner plugin that cannot be used is an error that says why, on every rank") {
  struct Row {
    std::string name;
    const char* fault;
    const char* says;
  };
  const auto row = GENERATE(
      values<Row>({{"/nonexistent/libx.so", "", "/nonexistent/libx.so: cannot be loaded"},
                   {"nosuch", "", "libnccl-tuner-nosuch.so can be loaded"},
                   {"libm.so.6", "", "exports none of ncclTunerPlugin_v6, ncclTunerPlugin_v5, ncclTunerPlugin_v4"},
                   {tunerPluginPath(5), "init", "Lines for tests: init gave code 2"}}));
  CAPTURE(row.name);
  const Variable plugin("TUTTI_TUNER_PLUGIN", row.name);
  const Variable fault("TUNER_PLUGIN_FAULT", row.fault);
  const std::string why = onRanks(2, [](const Rank&) { return std::string("joined"); });
  CAPTURE(why);
  CHECK(why.find("TUTTI_TUNER_PLUGIN=" + row.name) != std::string::npos);
  CHECK(why.find(row.says) != why.rfind(row.says));  // from both ranks
  CHECK(why.find("joined") == std::string::npos);
}

}  // namespace
}  // namespace tutti
