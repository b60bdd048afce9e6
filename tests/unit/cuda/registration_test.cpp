// Registered device memory: read where it lies, by ranks of one process; tests/multiproc has those of several.
#include <catch2/catch.hpp>

#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr size_t kFloats = 150'001;

/// Calls on memory that is registered or not, one after the other; every rank's element is rank + 1 at first.
std::string callsOn(const Rank& r, GpuRank& own, const DeviceFloats& in, const DeviceFloats& out) {
  const auto n = static_cast<size_t>(r.nRanks);
  const auto mine = static_cast<float>(r.rank + 1);
  const auto all = static_cast<float>(n * (n + 1) / 2);
  in.fill(mine);
  RANK_TRY(tuttiAllReduce(in.data(), out.data(), kFloats, tuttiFloat, tuttiSum, r.comm, own.asTutti()));
  if (std::string why = out.check(0, kFloats, all); !why.empty()) return "all-reduce: " + why;
  RANK_TRY(tuttiAllReduce(in.data(), in.data(), kFloats, tuttiFloat, tuttiMax, r.comm, own.asTutti()));
  if (std::string why = in.check(0, kFloats, static_cast<float>(n)); !why.empty()) return "in place: " + why;
  in.fill(mine);
  RANK_TRY(tuttiAllGather(in.data(), out.data(), kFloats, tuttiFloat, r.comm, own.asTutti()));
  for (size_t block = 0; block < n; ++block) {
    std::string why = out.check(block * kFloats, (block + 1) * kFloats, static_cast<float>(block + 1));
    if (!why.empty()) return "all-gather: " + why;
  }
  const int next = (r.rank + 1) % r.nRanks, previous = (r.rank + r.nRanks - 1) % r.nRanks;
  RANK_TRY(tuttiGroupStart());
  RANK_TRY(tuttiSend(in.data(), kFloats, tuttiFloat, next, r.comm, own.asTutti()));
  RANK_TRY(tuttiRecv(out.data(), kFloats, tuttiFloat, previous, r.comm, own.asTutti()));
  RANK_TRY(tuttiGroupEnd());
  return out.check(0, kFloats, static_cast<float>(previous + 1));
}

std::string callsRegistered(const Rank& r, GpuRank& own, bool registered,
                            DeviceFloats::Source source = DeviceFloats::Source::Tutti) {
  const DeviceFloats in(own, kFloats, source), out(own, kFloats * static_cast<size_t>(r.nRanks), source);
  void* handles[2] = {};
  if (registered) RANK_TRY(tuttiCommRegister(r.comm, in.data(), in.bytes(), &handles[0]));
  if (registered) RANK_TRY(tuttiCommRegister(r.comm, out.data(), out.bytes(), &handles[1]));
  for (int round = 0; round < 2; ++round) {
    if (std::string why = callsOn(r, own, in, out); !why.empty()) return why;
  }
  for (void* handle : handles) {
    if (registered) RANK_TRY(tuttiCommDeregister(r.comm, handle));
  }
  return "";
}

}  // namespace

TEST_CASE("registered memory is read where it lies, with fewer copies") {
  const Variable where("TUTTI_DEVICE", "cuda");
  const Variable way("TUTTI_CUDA_EXECUTOR", "stream");
  struct Row {
    const char* driver;
    int nRanks;
    int devices;
    DeviceFloats::Source source;
  };
  using Source = DeviceFloats::Source;
  const auto row = GENERATE(values<Row>({{"devices=1;queues=1", 3, 1, Source::Tutti},
                                         {"devices=1;queues=1", 3, 1, Source::Driver},
                                         {"devices=2;delay=100", 2, 2, Source::Tutti},
                                         {"devices=2;vmm=0", 3, 2, Source::Driver}}));
  CAPTURE(row.driver);
  int copies[2] = {};
  for (const bool registered : {false, true}) {
    {
      const Gpu gpu(row.driver);
      if (!gpu.has(row.devices)) return;
      CHECK(onGpuRanks(row.nRanks, row.devices, [&](const Rank& r, GpuRank& own) {
              return callsRegistered(r, own, registered, row.source);
            }) == "");
      if (FakeCuda::get().calls != nullptr) copies[registered ? 1 : 0] = FakeCuda::get().calls("cuMemcpyAsync");
    }
    CHECK(Gpu::complaints() == "");
  }
  if (FakeCuda::get().calls != nullptr) CHECK(copies[1] < copies[0]);
}

TEST_CASE("a registration ends when nothing is under way, and memory is freed after that") {
  const Variable where("TUTTI_DEVICE", "cuda");
  const Variable way("TUTTI_CUDA_EXECUTOR", "stream");
  {
    const Gpu gpu;
    CHECK(onGpuRanks(2, 1, [&](const Rank& r, GpuRank& own) -> std::string {
            float onStack = 0;
            void* handle = &handle;
            RANK_CHECK(tuttiCommRegister(r.comm, &onStack, 4, &handle) == tuttiInvalidArgument && handle == nullptr);
            void* memory = nullptr;
            RANK_TRY(tuttiMemAlloc(&memory, kFloats * 4));
            RANK_TRY(tuttiCommRegister(r.comm, memory, kFloats * 4, &handle));
            RANK_CHECK(tuttiMemFree(memory) == tuttiInvalidUsage);
            RANK_CHECK(std::string(tuttiGetLastError(nullptr)).find("registered") != std::string::npos);
            const Gate gate;
            RANK_CHECK(gate.holdsUp(own, own.stream()));
            RANK_TRY(tuttiAllReduce(memory, memory, kFloats, tuttiFloat, tuttiSum, r.comm, own.asTutti()));
            RANK_CHECK(tuttiCommDeregister(r.comm, handle) == tuttiInvalidUsage);
            RANK_CHECK(std::string(tuttiGetLastError(r.comm)).find("under way") != std::string::npos);
            gate.open();
            RANK_CHECK(own.synchronize().empty());
            RANK_TRY(tuttiCommDeregister(r.comm, handle));
            RANK_CHECK(tuttiCommDeregister(r.comm, handle) == tuttiInvalidArgument);
            RANK_TRY(tuttiMemFree(memory));
            // What peers had mapped goes with the next call, and new memory is told from the old.
            return callsRegistered(r, own, true);
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("captured calls on registered memory can be replayed") {
  const Variable where("TUTTI_DEVICE", "cuda");
  const Variable way("TUTTI_CUDA_EXECUTOR", "stream");
  {
    const Gpu gpu("devices=2");
    const int devices = gpu.has(2) ? 2 : 1;
    CHECK(onGpuRanks(3, devices, [](const Rank& r, GpuRank& own) -> std::string {
            const cuda::Driver& d = own.driver();
            const DeviceFloats x(own, kFloats), y(own, kFloats);
            void* handle = nullptr;
            RANK_TRY(tuttiCommRegister(r.comm, x.data(), x.bytes(), &handle));
            cuda::Graph graph = nullptr;
            cuda::GraphExec exec = nullptr;
            RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
            RANK_TRY(tuttiAllReduce(x.data(), y.data(), kFloats, tuttiFloat, tuttiSum, r.comm, own.asTutti()));
            RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
            RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::kSuccess);
            for (int round = 0; round < 3; ++round) {
              x.fill(static_cast<float>(r.rank + round));
              RANK_CHECK(d.cuGraphLaunch(exec, own.stream()) == cuda::kSuccess);
              if (std::string why = y.check(0, kFloats, static_cast<float>(3 + 3 * round)); !why.empty()) return why;
            }
            d.cuGraphExecDestroy(exec);
            d.cuGraphDestroy(graph);
            RANK_TRY(tuttiCommDeregister(r.comm, handle));
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}
