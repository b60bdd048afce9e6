// Imported plans on CUDA ranks, and what is asked for there and does not fit.
#include <catch2/catch.hpp>

#include "tests/support/gpu.hpp"
#include "tests/support/plan_texts.hpp"
#include "tests/support/said.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

std::string nameFor(const Rank& r, size_t count) {
  tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
  RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, count, tuttiFloat32, tuttiSum, 0, &e));
  return e.algorithm;
}

struct PlanRow {
  const char* driver;
  int nRanks, devices;
  const char* way;
};

#if TUTTI_HAVE_PUGIXML
/// Sums in place, captured once and replayed, with other calls of the same communicator in between.
std::string replayInPlace(const Rank& r, GpuRank& own) {
  const cuda::Driver& d = own.driver();
  FloatBuffer x(70'000, 0, Memory::Other);
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
  RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiSum, r.comm, own.asTutti()));
  RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
  RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::kSuccess);
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < x.count(); ++i) x.set(i, static_cast<float>(r.rank + round));
    RANK_CHECK(d.cuGraphLaunch(exec, own.stream()) == cuda::kSuccess);
    RANK_CHECK(own.synchronize().empty());
    const auto sum = static_cast<float>(r.nRanks * (r.nRanks - 1) / 2 + r.nRanks * round);
    for (const size_t i : {size_t{0}, size_t{35'000}, size_t{69'999}}) RANK_CHECK(x.get(i) == sum);
    // A larger copy takes other memory; what was captured keeps its own.
    if (round < 2) {
      std::string why = checkAllReduce(r, own.options(size_t{90'000} << round, true, 0, 0));
      if (!why.empty()) return why;
    }
  }
  d.cuGraphExecDestroy(exec);
  d.cuGraphDestroy(graph);
  return "";
}
#endif

}  // namespace

#if TUTTI_HAVE_PUGIXML
TEST_CASE("plans that cannot serve in place do so by a copy of the input, on devices too") {
  const auto row = GENERATE(values<PlanRow>({{"devices=1;queues=1", 2, 1, "stream"},
                                             {"devices=1;queues=1", 3, 1, "auto"},
                                             {"devices=2;delay=100", 5, 2, "stream"},
                                             {"devices=2", 3, 2, "resident"},
                                             {"devices=2;ipc=0", 3, 2, "proxy"}}));
  CAPTURE(row.driver, row.nRanks, row.way);
  const TempFolder folder;
  folder.write("shout.xml", shoutXml(row.nRanks));
  folder.write("cross.xml", crossXml(row.nRanks));
  const Variable plans("TUTTI_PLAN_DIR", folder.path()), strict("TUTTI_ALGO_STRICT", "1");
  const Variable algorithm("TUTTI_ALGO", "allreduce:shout,alltoall:cross"), way("TUTTI_CUDA_EXECUTOR", row.way);
  {
    const Gpu gpu(row.driver);
    if (!gpu.has(row.devices)) return;
    CHECK(onGpuRanks(row.nRanks, row.devices, [](const Rank& r, GpuRank& own) -> std::string {
            RANK_CHECK(nameFor(r, 1000) == "shout");
            for (const size_t count : {0, 1, 777, 4096, 50'001}) {
              for (const int who : {0, 1, 2, 0}) {  // nobody, every second rank, all; again
                const bool inPlace = who == 2 || (who == 1 && r.rank % 2 == 0);
                std::string why = checkAllReduce(r, own.options(count, inPlace, 0, 0));
                if (why.empty()) why = checkAllToAll(r, own.options(count, inPlace, 4, 0));
                if (!why.empty()) return std::to_string(count) + " elements, " + std::to_string(who) + ": " + why;
              }
            }
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("a captured call in place copies its input each time") {
  const int devices = GENERATE(1, 3);
  const TempFolder folder;
  folder.write("shout.xml", shoutXml(3));
  const Variable plans("TUTTI_PLAN_DIR", folder.path()), strict("TUTTI_ALGO_STRICT", "1");
  const Variable algorithm("TUTTI_ALGO", "allreduce:shout");
  const Variable way("TUTTI_CUDA_EXECUTOR", devices == 1 ? "auto" : "resident");
  {
    const Gpu gpu(devices == 1 ? "devices=1" : "devices=3");
    if (!gpu.has(devices)) return;
    CHECK(onGpuRanks(3, devices, replayInPlace) == "");
  }
  CHECK(Gpu::complaints() == "");
}
#endif

TEST_CASE("what is asked for and does not fit devices is chosen as if it had not been asked for") {
  struct Asked {
    const char *name, *value, *reason;
  };
  const auto asked = GENERATE(values<Asked>(
      {{"TUTTI_ALGO", "allreduce:torus3d", "TUTTI_ALGO=torus3d does not serve allreduce of 40000 bytes on 3 ranks: "},
       {"TUTTI_PROTO", "inline", "TUTTI_PROTO=inline does not serve allreduce of 40000 bytes on 3 ranks: "}}));
  const std::string way = GENERATE("auto", "stream");
  CAPTURE(asked.name, way);
  const Variable executor("TUTTI_CUDA_EXECUTOR", way), variable(asked.name, asked.value);
  {
    const Gpu gpu("devices=1");
    std::vector<std::string> names(3);
    {
      const Said said;
      CHECK(onGpuRanks(3, 1, [&](const Rank& r, GpuRank& own) {
              names[static_cast<size_t>(r.rank)] = nameFor(r, 10'000);
              std::string why = checkAllReduce(r, own.options(10'000, false, 0, 0));
              return why.empty() ? checkAllReduce(r, own.options(20'000, true, 0, 0)) : why;
            }) == "");
      CHECK(said.times(asked.reason) == 1);
      CHECK(said.times("does not serve") == 1);
    }
    for (const std::string& name : names) CHECK((name == "onepass") == (way == "auto"));
    const Variable strict("TUTTI_ALGO_STRICT", "1");
    const std::string why = onGpuRanks(
        3, 1, [&](const Rank& r, GpuRank& own) { return checkAllReduce(r, own.options(10'000, false, 0, 0)); });
    CAPTURE(why);
    CHECK(why.find(asked.reason) != std::string::npos);
    CHECK(why.find("these would: ") != std::string::npos);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("more channels than blocks can have lanes are as many as there can be") {
  const Variable way("TUTTI_CUDA_EXECUTOR", "resident"), asked("TUTTI_ALGO", "allreduce:twoshot");
  const Variable channels("TUTTI_NCHANNELS", "64");
  {
    const Gpu gpu("devices=1");
    const Said said;
    CHECK(onGpuRanks(2, 1, [](const Rank& r, GpuRank& own) -> std::string {
            tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
            RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, 1 << 20, tuttiFloat32, tuttiSum, 0, &e));
            RANK_CHECK(std::string(e.algorithm) == "twoshot" && e.nChannels <= 8);
            return checkAllReduce(r, own.options(1 << 18, false, 0, 0));
          }) == "");
    CHECK(said.times("TUTTI_NCHANNELS (or config.nChannels) = 64 does not serve") == 1);
  }
  CHECK(Gpu::complaints() == "");
}
