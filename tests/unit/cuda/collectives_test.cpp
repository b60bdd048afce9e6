// CUDA communicators: several ranks, as threads, on one device or several, under the test driver.
#include <catch2/catch.hpp>

#include <thread>

#include "tests/support/gpu.hpp"
#include "tests/support/thorough.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

std::string everyShape(const Rank& r, GpuRank& gpu, size_t count) {
  for (const bool inPlace : {false, true}) {
    for (const size_t shift : {size_t{0}, size_t{4}, size_t{3}}) {
      if (shift == 4 && !kThorough) continue;
      std::string why = checkEverything(r, gpu.options(count, inPlace, shift, r.nRanks - 1));
      if (!why.empty()) return why + " (count " + std::to_string(count) + ", shift " + std::to_string(shift) + ")";
    }
  }
  return "";
}

}  // namespace

// One hardware queue for the streams of all ranks of a device is the hardest there is: whatever is enqueued runs in the
// order in which hosts have enqueued it, so a wait before its write would never end.
TEST_CASE("all collectives are right on ranks that share devices", "[thorough]") {
  struct Row {
    const char* driver;
    int nRanks;
    int devices;
    const char* way;
    const char* protocol = "";  // asked for, ranks that share a launch walk plans
  };
  const auto row = GENERATE(values<Row>({{"devices=1", 1, 1, "auto"},
                                         {"devices=1", 2, 1, "stream"},
                                         {"devices=1;queues=1", 3, 1, "stream"},
                                         {"devices=1;queues=1", 3, 1, "auto"},
                                         {"devices=1;queues=1", 3, 1, "auto", "direct"},
                                         {"devices=1", 2, 1, "resident", "slots"},
                                         {"devices=2;delay=200", 4, 2, "stream"},
                                         {"devices=2;queues=1", 4, 2, "resident"},
                                         {"devices=5;queues=2", 5, 5, "auto"}}));
  CAPTURE(row.driver, row.nRanks, row.way, row.protocol);
  {
    const Variable way("TUTTI_CUDA_EXECUTOR", row.way);
    const Variable protocol("TUTTI_PROTO", row.protocol);
    const Gpu gpu(row.driver);
    if (!gpu.has(row.devices)) return;
    CHECK(onGpuRanks(row.nRanks, row.devices, [](const Rank& r, GpuRank& own) {
            std::string why;
            for (const size_t count : {size_t{0}, size_t{1}, size_t{777}}) {
              if (why.empty() && (count != 1 || kThorough)) why = everyShape(r, own, count);
            }
            return why;
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("all collectives are right by proxies, over any transport") {
  const Variable way("TUTTI_CUDA_EXECUTOR", "proxy");
  const char* const transports = GENERATE("shm,self", "tcp,self");
  CAPTURE(transports);
  {
    const Variable allowed("TUTTI_TRANSPORTS", transports);
    const Gpu gpu("devices=2;ipc=0");
    const int devices = gpu.has(2) ? 2 : 1;
    CHECK(onGpuRanks(3, devices, [](const Rank& r, GpuRank& own) {
            std::string why = everyShape(r, own, 333);
            if (why.empty()) why = checkAllReduce(r, own.options(300'001, true, 0, 0));
            if (why.empty()) why = checkPointToPoint(r, own.options(300'001, false, 0, 0));
            return why;
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("host ranks and CUDA ranks work in one communicator") {
  {
    const Gpu gpu;
    tuttiUniqueId id;
    REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
    std::string complaints[3];
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r) {
      threads.emplace_back([&, r] {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.device = r == 1 ? TUTTI_DEVICE_CUDA : TUTTI_DEVICE_HOST;
        complaints[r] = [&]() -> std::string {
          GpuRank own(0);
          Rank rank{r, 3, nullptr};
          RANK_TRY(tuttiCommInitRankConfig(&rank.comm, 3, id, r, &config));
          for (const size_t count : {size_t{1}, size_t{1000}, size_t{200'001}}) {
            CheckOptions o = own.options(count, false, 0, 2);
            if (r != 1) o = {.count = count, .root = 2};
            if (std::string why = checkEverything(rank, o); !why.empty()) return why;
          }
          RANK_TRY(tuttiCommDestroy(rank.comm));
          return "";
        }();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& complaint : complaints) CHECK(complaint == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("messages larger than all slots of an endpoint pass through them") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident"));
  {
    const Gpu gpu("devices=1;queues=1");
    CHECK(onGpuRanks(3, 1, [](const Rank& r, GpuRank& own) {
            std::string why = checkAllReduce(r, own.options(2'000'001, false, 0, 0));
            if (why.empty()) why = checkPointToPoint(r, own.options(1'500'000, false, 4, 0));
            return why;
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("avg divides and PreMulSum multiplies on the device") {
  {
    const Gpu gpu;
    CHECK(onGpuRanks(3, 1, [](const Rank& r, GpuRank& own) -> std::string {
            FloatBuffer x(3000, 0, Memory::Other), scalar(1, 0, Memory::Other);
            for (size_t i = 0; i < x.count(); ++i) x.set(i, static_cast<float>(3 * r.rank));
            RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiAvg, r.comm, own.asTutti()));
            RANK_CHECK(own.synchronize().empty());
            RANK_CHECK(x.get(0) == 3 && x.get(2999) == 3);
            scalar.set(0, static_cast<float>(r.rank));
            float immediate = 2;
            for (const bool onDevice : {true, false}) {
              tuttiRedOp_t op;
              RANK_TRY(tuttiRedOpCreatePreMulSum(&op, onDevice ? scalar.at(0) : &immediate, tuttiFloat,
                                                 onDevice ? tuttiScalarDevice : tuttiScalarHostImmediate, r.comm));
              RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, op, r.comm, own.asTutti()));
              RANK_TRY(tuttiRedOpDestroy(op, r.comm));
            }
            RANK_CHECK(own.synchronize().empty());
            RANK_CHECK(x.get(0) == 54 && x.get(2999) == 54);  // 3 * (0 + 1 + 2) = 9, 9 * (2 + 2 + 2) = 54
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("one thread drives several ranks in a group, on several streams") {
  {
    const Gpu gpu("devices=2");
    if (!gpu.has(2)) return;
    tuttiComm_t comms[3];
    const int devices[] = {0, 1, 0};
    ::setenv("TUTTI_DEVICE", "cuda", 1);
    REQUIRE(tuttiCommInitAll(comms, 3, devices) == tuttiSuccess);
    ::unsetenv("TUTTI_DEVICE");
    GpuRank a(0), b(1), c(0);
    GpuRank* const ranks[] = {&a, &b, &c};
    std::vector<std::unique_ptr<FloatBuffer>> x;
    REQUIRE(tuttiGroupStart() == tuttiSuccess);
    for (int r = 0; r < 3; ++r) {
      int device = -1;
      CHECK(tuttiCommCuDevice(comms[r], &device) == tuttiSuccess);
      CHECK(device == devices[r]);
      x.push_back(std::make_unique<FloatBuffer>(100, 0, Memory::Other));
      for (size_t i = 0; i < 100; ++i) x.back()->set(i, static_cast<float>(r + 1));
      CHECK(tuttiAllReduce(x[static_cast<size_t>(r)]->at(0), x[static_cast<size_t>(r)]->at(0), 100, tuttiFloat,
                           tuttiSum, comms[r], ranks[r]->asTutti()) == tuttiSuccess);
    }
    REQUIRE(tuttiGroupEnd() == tuttiSuccess);
    for (int r = 0; r < 3; ++r) {
      CHECK(ranks[r]->synchronize() == "");
      CHECK(x[static_cast<size_t>(r)]->get(99) == 6);
    }
    // Destroying waits for the other ranks, so each does it on a thread of its own.
    std::vector<std::thread> ends;
    for (tuttiComm_t comm : comms) ends.emplace_back([comm] { tuttiCommDestroy(comm); });
    for (std::thread& end : ends) end.join();
  }
  CHECK(Gpu::complaints() == "");
}

// Resident kernels are captured where every rank has a device; ranks that share one are captured as streams.
TEST_CASE("captured calls can be replayed, between calls that are not") {
  const int devices = GENERATE(1, 3);
  const Variable way("TUTTI_CUDA_EXECUTOR", devices == 1 ? "auto" : "resident");
  {
    const Gpu gpu(devices == 1 ? "devices=1" : "devices=3");
    if (!gpu.has(devices)) return;
    CHECK(onGpuRanks(3, devices, [](const Rank& r, GpuRank& own) -> std::string {
            const cuda::Driver& d = own.driver();
            FloatBuffer in(70'000, 0, Memory::Other), out(70'000, 0, Memory::Other), all(210'000, 0, Memory::Other);
            cuda::Graph graph = nullptr;
            cuda::GraphExec exec = nullptr;
            RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
            RANK_TRY(tuttiAllReduce(in.at(0), out.at(0), in.count(), tuttiFloat, tuttiSum, r.comm, own.asTutti()));
            RANK_TRY(tuttiAllGather(out.at(0), all.at(0), out.count(), tuttiFloat, r.comm, own.asTutti()));
            RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
            RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::kSuccess);
            for (int round = 0; round < 5; ++round) {
              for (size_t i = 0; i < in.count(); ++i) in.set(i, static_cast<float>(r.rank + round));
              RANK_CHECK(d.cuGraphLaunch(exec, own.stream()) == cuda::kSuccess);
              RANK_CHECK(own.synchronize().empty());
              const auto sum = static_cast<float>(3 + 3 * round);
              RANK_CHECK(out.get(0) == sum && out.get(69'999) == sum && all.get(209'999) == sum);
              if (round == 2) {
                if (std::string why = checkEverything(r, own.options(1000, false, 0, 1)); !why.empty()) return why;
              }
            }
            d.cuGraphExecDestroy(exec);
            d.cuGraphDestroy(graph);
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("calls are ordered over streams, and nothing is done before the stream is") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident", "proxy"));
  {
    const Gpu gpu;
    CHECK(onGpuRanks(2, 1, [](const Rank& r, GpuRank& own) -> std::string {
            GpuRank other(0);
            FloatBuffer x(1000, 0, Memory::Other);
            const Gate gate;
            for (size_t i = 0; i < x.count(); ++i) x.set(i, 1);
            RANK_CHECK(gate.holdsUp(own, own.stream()));
            RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiSum, r.comm, own.asTutti()));
            RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiSum, r.comm, other.asTutti()));
            RANK_CHECK(other.driver().cuStreamQuery(other.stream()) == cuda::kErrorNotReady);
            RANK_CHECK(x.get(0) == 1);
            gate.open();
            RANK_CHECK(other.synchronize().empty());
            RANK_CHECK(x.get(0) == 4 && x.get(999) == 4);
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("calls are ordered over the default streams of threads, which have one handle") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident", "proxy"));
  {
    const Gpu gpu;
    CHECK(onGpuRanks(2, 1, [](const Rank& r, GpuRank& own) -> std::string {
            const auto handle = reinterpret_cast<tuttiStream_t>(cuda::kStreamPerThread);
            const cuda::Driver& d = own.driver();
            FloatBuffer x(1000, 0, Memory::Other);
            const Gate gate;
            for (size_t i = 0; i < x.count(); ++i) x.set(i, 1);
            RANK_CHECK(gate.holdsUp(own, cuda::kStreamPerThread));
            RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiSum, r.comm, handle));
            std::string why;
            std::thread([&] {
              const GpuRank other(0);  // has the device current on this thread
              why = [&]() -> std::string {
                RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiSum, r.comm, handle));
                RANK_CHECK(d.cuStreamQuery(cuda::kStreamPerThread) == cuda::kErrorNotReady);
                RANK_CHECK(x.get(0) == 1);
                gate.open();
                RANK_CHECK(d.cuStreamSynchronize(cuda::kStreamPerThread) == cuda::kSuccess);
                RANK_CHECK(x.get(0) == 4 && x.get(999) == 4);
                return "";
              }();
              gate.open();
            }).join();
            RANK_CHECK(d.cuStreamSynchronize(cuda::kStreamPerThread) == cuda::kSuccess);
            return why;
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}
