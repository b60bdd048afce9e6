// Many ranks on few devices, as threads: what a borrowed device would show first is who waits for whom.
#include <catch2/catch.hpp>

#include "tests/support/gpu.hpp"
#include "tests/support/thorough.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

struct Row {
  const char* way;
  const char* driver;
  int nRanks;
  std::vector<int> devices;  // rank r is on devices[r % size]
  bool anyOrder = true;      // kernels that wait for other devices need one order (docs/cuda.md)
};

/// As onGpuRanks(), with ranks unevenly on devices.
std::string onDevices(const Row& row, const std::function<std::string(const Rank&, GpuRank&)>& body) {
  return onThreads(row.nRanks, [&](int rank, const tuttiUniqueId& id) {
    GpuRank gpu(row.devices[static_cast<size_t>(rank) % row.devices.size()]);
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = TUTTI_DEVICE_CUDA;
    return asRank(rank, row.nRanks, id, config, [&](const Rank& r) { return body(r, gpu); });
  });
}

std::string largeOnes(const Rank& r, GpuRank& own, size_t count) {
  std::string why = checkAllReduce(r, own.options(count, false, 0, 0));
  if (why.empty()) why = checkAllToAll(r, own.options(count / 16, false, 4, 0));
  if (why.empty()) why = checkPointToPoint(r, own.options(count, false, 0, 0));
  return why;
}

/// Two communicators beside the first, on two streams.  anyOrder: in groups, which every second
/// rank begins with another one.
std::string sideBySide(const Rank& r, GpuRank& own, bool anyOrder) {
  GpuRank other(own.ordinal());
  tuttiComm_t half = nullptr, back = nullptr;
  RANK_TRY(tuttiCommSplit(r.comm, r.rank % 2, r.rank, &half, nullptr));
  RANK_TRY(tuttiCommSplit(r.comm, 0, -r.rank, &back, nullptr));
  FloatBuffer a(3001, 0, Memory::Other), b(77, 0, Memory::Other), c(5, 0, Memory::Other);
  for (FloatBuffer* x : {&a, &b, &c}) {
    for (size_t i = 0; i < x->count(); ++i) x->set(i, 1);
  }
  const auto sum = [](FloatBuffer& x, tuttiComm_t comm, GpuRank& on) {
    return tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiMax, comm, on.asTutti());
  };
  for (int round = 0; round < 3; ++round) {
    const bool first = !anyOrder || r.rank % 2 == 0;
    if (anyOrder) RANK_TRY(tuttiGroupStart());
    RANK_TRY(first ? sum(a, r.comm, own) : sum(c, back, other));
    RANK_TRY(sum(b, half, other));
    RANK_TRY(first ? sum(c, back, other) : sum(a, r.comm, own));
    if (anyOrder) RANK_TRY(tuttiGroupEnd());
    RANK_TRY(sum(c, back, own));
    RANK_TRY(sum(b, half, own));
  }
  RANK_CHECK(own.synchronize().empty() && other.synchronize().empty());
  RANK_CHECK(a.get(3000) == 1 && b.get(76) == 1 && c.get(4) == 1);
  RANK_TRY(tuttiCommDestroy(back));
  RANK_TRY(tuttiCommDestroy(half));
  return "";
}

}  // namespace

TEST_CASE("up to sixteen ranks share a device, and others are spread unevenly", "[thorough]") {
  const size_t count = kThorough ? 20'003 : 3'001;
  const auto row = GENERATE(values<Row>({{"stream", "devices=1", 16, {0}},
                                         {"stream", "devices=1;queues=1", 16, {0}},
                                         {"resident", "devices=1;queues=1", 16, {0}},
                                         {"resident", "devices=1;queues=8", 13, {0}},
                                         {"proxy", "devices=1", 16, {0}},
                                         {"auto", "devices=8;queues=2", 16, {0, 1, 2, 3, 4, 5, 6, 7}},
                                         {"resident", "devices=4;queues=2", 7, {0, 1, 2, 3}, false},
                                         {"auto", "devices=8;queues=1", 15, {0, 0, 0, 1, 5, 7, 7}}}));
  CAPTURE(row.way, row.driver, row.nRanks);
  const Variable way("TUTTI_CUDA_EXECUTOR", row.way);
  {
    const Gpu gpu(row.driver);
    if (!gpu.has(row.devices.back() + 1)) return;
    CHECK(onDevices(row, [&](const Rank& r, GpuRank& own) {
            std::string why = checkEverything(r, own.options(33, false, 3, r.nRanks - 1));
            if (why.empty()) why = largeOnes(r, own, count);
            if (why.empty()) why = sideBySide(r, own, row.anyOrder);
            return why;
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("graphs of sixteen ranks on one device are replayed in any order") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident"));
  constexpr int kRanks = 16;
  {
    const Gpu gpu("devices=1;delay=20");
    CHECK(onGpuRanks(kRanks, 1, [](const Rank& r, GpuRank& own) -> std::string {
            const cuda::Driver& d = own.driver();
            FloatBuffer x(1001, 0, Memory::Other);
            cuda::Graph graph = nullptr;
            cuda::GraphExec exec = nullptr;
            RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
            for (const tuttiRedOp_t op : {tuttiSum, tuttiMax}) {
              RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, op, r.comm, own.asTutti()));
            }
            RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
            RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::kSuccess);
            for (int round = 0; round < 3; ++round) {
              for (size_t i = 0; i < x.count(); ++i) x.set(i, static_cast<float>(r.rank + round));
              RANK_CHECK(d.cuGraphLaunch(exec, own.stream()) == cuda::kSuccess);
              // Between replays, and on the same stream, calls outside of the graph.
              RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), 1, tuttiFloat, tuttiMin, r.comm, own.asTutti()));
              RANK_CHECK(own.synchronize().empty());
              const auto sum = static_cast<float>(kRanks * (kRanks - 1) / 2 + kRanks * round);
              RANK_CHECK(x.get(0) == sum && x.get(x.count() - 1) == sum);
            }
            d.cuGraphExecDestroy(exec);
            d.cuGraphDestroy(graph);
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}
