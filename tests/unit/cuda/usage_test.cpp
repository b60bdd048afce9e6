// Mistakes and failures on CUDA communicators.
#include <barrier>
#include <catch2/catch.hpp>

#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

TEST_CASE("memory that the device cannot reach is refused with its name") {
  {
    const Gpu gpu("devices=2");
    if (!gpu.has(2)) return;
    CHECK(onGpuRanks(2, 1, [&](const Rank& r, GpuRank& own) -> std::string {
            FloatBuffer plain(10), good(10, 0, Memory::Other);
            if (!gpu.reachesPageable()) {
              RANK_CHECK(tuttiAllReduce(plain.at(0), good.at(0), 10, tuttiFloat, tuttiSum, r.comm, own.asTutti()) ==
                         tuttiInvalidArgument);
              RANK_CHECK(std::string(tuttiGetLastError(r.comm)).find("sendbuff") != std::string::npos);
            }
            void* elsewhere = Gpu::allocate(40, 1, false);
            RANK_CHECK(tuttiAllReduce(good.at(0), elsewhere, 10, tuttiFloat, tuttiSum, r.comm, own.asTutti()) ==
                       tuttiInvalidArgument);
            RANK_CHECK(std::string(tuttiGetLastError(r.comm)).find("CUDA device 1") != std::string::npos);
            Gpu::free(elsewhere);
            tuttiRedOp_t op;
            RANK_CHECK(tuttiRedOpCreate(
                           &op, [](const void*, void*, size_t, tuttiDataType_t, void*) {}, 1, nullptr, r.comm) ==
                       tuttiInvalidUsage);
            return checkAllReduce(r, own.options(10, false, 0, 0));  // as good as before
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("streams that cannot take a call are refused before anything is enqueued") {
  {
    const Gpu gpu("devices=2");
    if (!gpu.has(2)) return;
    CHECK(onGpuRanks(2, 1, [](const Rank& r, GpuRank& own) -> std::string {
            const cuda::Driver& d = own.driver();
            FloatBuffer x(10, 0, Memory::Other);
            const auto refused = [&](cuda::Stream stream, tuttiResult_t result, const char* why) {
              return tuttiAllReduce(x.at(0), x.at(0), 10, tuttiFloat, tuttiSum, r.comm,
                                    reinterpret_cast<tuttiStream_t>(stream)) == result &&
                     std::string(tuttiGetLastError(r.comm)).find(why) != std::string::npos;
            };
            {
              const GpuRank other(1);
              RANK_CHECK(refused(other.stream(), tuttiInvalidArgument, "another device"));
            }
            cuda::Stream blocking = nullptr;
            cuda::Graph graph = nullptr;
            RANK_CHECK(d.cuStreamCreate(&blocking, 0) == cuda::kSuccess);
            RANK_CHECK(d.cuStreamBeginCapture(blocking, cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
            RANK_CHECK(refused(nullptr, tuttiInvalidUsage, "legacy default stream"));
            RANK_CHECK(d.cuStreamEndCapture(blocking, &graph) == cuda::kSuccess);
            d.cuGraphDestroy(graph);
            d.cuStreamDestroy(blocking);
            if (FakeCuda::get().calls != nullptr)  // real drivers need not survive it
              RANK_CHECK(refused(blocking, tuttiInvalidArgument, "has been destroyed"));
            return checkAllReduce(r, own.options(10, false, 0, 0));  // as good as before
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("captures that cannot hold a communicator's calls are refused before anything is enqueued") {
  {
    const Gpu gpu;
    CHECK(onGpuRanks(2, 1, [](const Rank& r, GpuRank& own) -> std::string {
            const cuda::Driver& d = own.driver();
            const GpuRank other(0);
            FloatBuffer x(10, 0, Memory::Other);
            const auto call = [&](const GpuRank& on) {
              return tuttiAllReduce(x.at(0), x.at(0), 10, tuttiFloat, tuttiSum, r.comm, on.asTutti());
            };
            cuda::Graph graph = nullptr;
            RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
            RANK_TRY(tuttiGroupStart());
            RANK_TRY(call(own));
            RANK_TRY(call(other));
            RANK_CHECK(tuttiGroupEnd() == tuttiInvalidUsage);
            RANK_CHECK(std::string(tuttiGetLastError(nullptr)).find("one graph, or none") != std::string::npos);
            RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);  // as it was
            d.cuGraphDestroy(graph);
            RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeRelaxed) == cuda::kSuccess);
            RANK_CHECK(d.cuStreamQuery(own.stream()) == cuda::kErrorCaptureUnsupported);
            RANK_CHECK(call(own) == tuttiInvalidUsage);
            RANK_CHECK(std::string(tuttiGetLastError(r.comm)).find("invalidated") != std::string::npos);
            RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kErrorCaptureInvalidated);
            return checkAllReduce(r, own.options(10, false, 0, 0));  // as good as before
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("ranks that differ in a call all get an error") {
  {
    const Gpu gpu;
    std::vector<tuttiResult_t> results(3);
    onGpuRanks(3, 1, [&](const Rank& r, GpuRank& own) -> std::string {
      FloatBuffer x(100, 0, Memory::Other);
      const size_t count = r.rank == 1 ? 99 : 100;
      results[static_cast<size_t>(r.rank)] =
          tuttiAllReduce(x.at(0), x.at(0), count, tuttiFloat, tuttiSum, r.comm, own.asTutti());
      return "ends with an abort";
    });
    for (const tuttiResult_t result : results) CHECK(result == tuttiInvalidUsage);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("a way that does not reach all ranks is refused") {
  const Variable way("TUTTI_CUDA_EXECUTOR", "stream");
  {
    const Gpu gpu;
    tuttiUniqueId id;
    REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
    std::string texts[2];
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.device = r == 0 ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
        tuttiComm_t comm = nullptr;
        if (tuttiCommInitRankConfig(&comm, 2, id, r, &config) != tuttiSuccess) texts[r] = tuttiGetLastError(nullptr);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : texts) CHECK(text.find("TUTTI_CUDA_EXECUTOR=stream") != std::string::npos);
  }
  CHECK(Gpu::complaints() == "");
}

// What they then do with what is not there yet is of no meaning.
TEST_CASE("an abort lets streams go that wait for other ranks") {
  struct Row {
    const char* way;
    int devices;
  };
  const auto row = GENERATE(values<Row>({{"stream", 1}, {"resident", 1}, {"resident", 3}}));
  CAPTURE(row.way, row.devices);
  const Variable way("TUTTI_CUDA_EXECUTOR", row.way);
  {
    const Gpu gpu(row.devices == 1 ? "devices=1;torn=1" : "devices=3;torn=1");
    if (!gpu.has(row.devices)) return;
    const Gate gate;
    onGpuRanks(3, row.devices, [&](const Rank& r, GpuRank& own) -> std::string {
      FloatBuffer x(100'000, 0, Memory::Other);
      if (r.rank == 0) RANK_CHECK(gate.holdsUp(own, own.stream()));  // it comes to the call only after the abort
      // Another rank may be through with its call, and abort, before this one is.
      tuttiResult_t seen = tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiSum, r.comm, own.asTutti());
      if (r.rank == 0) {
        while (seen == tuttiSuccess) tuttiCommGetAsyncError(r.comm, &seen);
        gate.open();
      }
      tuttiCommAbort(r.comm);
      const std::string left = own.synchronize();  // before x is gone
      return left.empty() ? "ends with an abort" : left;
    });
  }
  CHECK(Gpu::lastComplaints() == "");
}

// The streams come to the calls only when all ranks have given up and their communicators are gone.
TEST_CASE("an abort does not wait for what the program has enqueued before, and the streams get through all the same") {
  struct Row {
    const char* way;
    const char* driver;
  };
  const auto row = GENERATE(values<Row>({{"stream", "devices=1;torn=1"},
                                         {"stream", "devices=1;torn=1;queues=1"},
                                         {"resident", "devices=1;torn=1"},
                                         {"proxy", "devices=1;torn=1"}}));
  CAPTURE(row.way, row.driver);
  const Variable way("TUTTI_CUDA_EXECUTOR", row.way);
  {
    const Gpu gpu(row.driver);
    const Gate gate;
    std::barrier all(3);
    const std::string said = onThreads(3, [&](int rank, const tuttiUniqueId& id) -> std::string {
      GpuRank own(0);
      constexpr size_t kCount = 100'000;
      FloatBuffer x(3 * kCount, 0, Memory::Other);  // each call its own: after an abort nothing keeps them apart
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.device = TUTTI_DEVICE_CUDA;
      tuttiComm_t comm = nullptr;
      tuttiResult_t result = tuttiCommInitRankConfig(&comm, 3, id, rank, &config);
      if (rank == 0) RANK_CHECK(gate.holdsUp(own, own.stream()));
      for (size_t call = 0; call < 3 && result == tuttiSuccess; ++call) {
        void* const part = x.at(call * kCount);
        result = tuttiAllReduce(part, part, kCount, tuttiFloat, tuttiSum, comm, own.asTutti());
      }
      const std::string why = result == tuttiSuccess ? "" : tuttiGetLastError(nullptr);
      all.arrive_and_wait();  // an abort ends calls of others
      tuttiCommAbort(comm);
      all.arrive_and_wait();
      gate.open();
      const std::string left = own.synchronize();
      return why.empty() ? left : why;
    });
    CHECK(said == "");
  }
  CHECK(Gpu::lastComplaints() == "");
}

// Wherever the driver fails first, the call says so and nothing hangs or leaks.
TEST_CASE("failures of the driver are errors of the call or of the join") {
  struct Row {
    const char* settings;
    const char* way = "auto";
    bool ofDevice = false;  // one rank cannot use its device, and the other hears of it
    const char* protocol = "";
  };
  const auto row = GENERATE(values<Row>({{"fail=cuMemAlloc:1:2", "auto", true},
                                         {"fail=cuMemAlloc:3:2"},
                                         {"fail=cuModuleLoadData:1:209", "auto", true},
                                         {"fail=cuStreamCreate:1:2", "auto", true},
                                         {"fail=cuLaunchCooperativeKernel:1:720", "auto", false, "slots"},
                                         {"fail=cuLaunchKernel:1:719"},
                                         {"fail=cuLaunchKernel:1:719", "stream"},
                                         {"fail=cuStreamBatchMemOp:1:801", "auto", true},
                                         {"fail=cuStreamBatchMemOp:3:719", "stream"}}));
  CAPTURE(row.settings);
  const Variable way("TUTTI_CUDA_EXECUTOR", row.way);
  const Variable protocol("TUTTI_PROTO", row.protocol);
  const Gpu gpu;
  if (FakeCuda::get().reset == nullptr) return;
  int failures = 0;
  {
    // The ranks' own streams and buffers are made before the driver begins to fail.
    FloatBuffer buffers(4000, 0, Memory::Other);
    GpuRank a(0), b(0);
    FakeCuda::get().reset(row.settings);
    tuttiUniqueId id;
    REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
    std::atomic<int> failed = 0;
    std::string texts[2];
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.device = TUTTI_DEVICE_CUDA;
        config.timeoutMs = 2000;
        tuttiComm_t comm = nullptr;
        if (tuttiCommInitRankConfig(&comm, 2, id, r, &config) != tuttiSuccess) {
          ++failed;
          texts[r] = tuttiGetLastError(nullptr);
          return;
        }
        void* x = buffers.at(static_cast<size_t>(r) * 2000);
        if (tuttiAllReduce(x, x, 2000, tuttiFloat, tuttiSum, comm, (r == 0 ? a : b).asTutti()) != tuttiSuccess) {
          ++failed;
        }
        tuttiCommAbort(comm);
      });
    }
    for (std::thread& thread : threads) thread.join();
    failures = failed;
    CAPTURE(texts[0], texts[1]);
    if (row.ofDevice) CHECK(failures == 2);
    const auto hears = [&](int r) { return texts[r].find("cannot use its device: ") != std::string::npos; };
    CHECK((hears(0) || hears(1)) == row.ofDevice);
  }
  CHECK(failures >= 1);
  CHECK(Gpu::complaints() == "");
}
