// What goes on beside communicators: captures of other threads, and calls of the driver that wait for the device.
#include <barrier>
#include <catch2/catch.hpp>

#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// Calls on memory of the rank's own device, registered and not, the plans of which have to be made first.
std::string onOwnDevice(const Rank& r, GpuRank& own) {
  const DeviceFloats x(own, 50'000), y(own, 50'000);
  for (const size_t count : {size_t{3}, x.count()}) {
    x.fill(1);
    for (int round = 0; round < 2; ++round) {
      RANK_TRY(tuttiAllReduce(x.data(), x.data(), count, tuttiFloat, tuttiSum, r.comm, own.asTutti()));
      RANK_TRY(tuttiAllToAll(x.data(), y.data(), count / 3, tuttiFloat, r.comm, own.asTutti()));
    }
    const float once = static_cast<float>(r.nRanks);
    if (std::string why = x.check(0, count, once * once); !why.empty()) return why;
    if (std::string why = y.check(0, count / 3 * 3, once * once); !why.empty()) return why;
  }
  return "";
}

/// What a communicator may do from its start to its end.
std::string life(const Rank& r, GpuRank& own) {
  for (const size_t count : {3u, 70'000u}) {
    std::string why = checkAllReduce(r, own.options(count, false, 0, 0));
    if (why.empty()) why = checkAllToAll(r, own.options(count / 3, false, 4, 0));
    if (!why.empty()) return why;
  }
  const DeviceFloats lent(own, 50'000), plain(own, 50'000, DeviceFloats::Source::Driver);
  for (const DeviceFloats* x : {&lent, &plain}) {
    void* handle = nullptr;
    RANK_TRY(tuttiCommRegister(r.comm, x->data(), x->bytes(), &handle));
    x->fill(1);
    RANK_TRY(tuttiAllReduce(x->data(), x->data(), x->count(), tuttiFloat, tuttiSum, r.comm, own.asTutti()));
    if (std::string why = x->check(0, x->count(), static_cast<float>(r.nRanks)); !why.empty()) return why;
    RANK_TRY(tuttiCommDeregister(r.comm, handle));
  }
  tuttiComm_t half = nullptr;
  RANK_TRY(tuttiCommSplit(r.comm, r.rank % 2, 0, &half, nullptr));
  RANK_TRY(tuttiCommDestroy(half));
  return "";
}

}  // namespace

// As PyTorch captures: in the mode that forbids other threads what is unsafe, unless they say that they know.
TEST_CASE("a capture of another thread in the global mode outlives all that communicators do") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident", "proxy"));
  const Variable where("TUTTI_DEVICE", "cuda");
  {
    const Gpu gpu("devices=2");
    if (!gpu.has(2)) return;
    const GpuRank captures(1);  // memory of the other device is freed meanwhile, which waits for that one
    const cuda::Driver& d = captures.driver();
    cuda::Graph graph = nullptr;
    REQUIRE(d.cuStreamBeginCapture(captures.stream(), cuda::kCaptureModeGlobal) == cuda::kSuccess);
    CHECK(onThreads(3, [&](int rank, const tuttiUniqueId& id) -> std::string {
            GpuRank own(0);
            tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
            config.device = TUTTI_DEVICE_CUDA;
            return asRank(rank, 3, id, config, [&](const Rank& r) { return life(r, own); });
          }) == "");
    CHECK(d.cuStreamEndCapture(captures.stream(), &graph) == cuda::kSuccess);
    d.cuGraphDestroy(graph);
  }
  CHECK(Gpu::complaints() == "");
}

// Allocations and what loads or maps anything may wait for all that the device has to do, other ranks' calls included.
// By proxies a rank's stream waits for others' calls to be made: then ranks that share a device must not allocate
// between them, as this program does.  The next one does not.
TEST_CASE("communicators work where calls of the driver wait for the device") {
  const std::string asked = GENERATE("stream", "resident", "proxy");
  const int devices = asked == "proxy" ? 3 : 1;
  const Variable way("TUTTI_CUDA_EXECUTOR", asked.c_str());
  const Variable where("TUTTI_DEVICE", "cuda");
  {
    const Gpu gpu(devices == 3 ? "devices=3;sync=1" : "devices=1;sync=1");
    if (!gpu.has(devices)) return;
    CHECK(onGpuRanks(3, devices, [&](const Rank& r, GpuRank& own) {
            return asked == "proxy" ? onOwnDevice(r, own) : life(r, own);
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("by proxies ranks that share a device wait for each other, and never for the device") {
  const Variable way("TUTTI_CUDA_EXECUTOR", "proxy");
  {
    const Gpu gpu("devices=1;sync=1");
    std::barrier together(3);
    CHECK(onThreads(3, [&](int rank, const tuttiUniqueId& id) -> std::string {
            GpuRank own(0);
            const DeviceFloats x(own, 50'000, DeviceFloats::Source::Driver);
            x.fill(1);
            together.arrive_and_wait();
            tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
            config.device = TUTTI_DEVICE_CUDA;
            const std::string why = asRank(rank, 3, id, config, [&](const Rank& r) -> std::string {
              const auto sum = [&](tuttiComm_t comm, size_t count) {
                return tuttiAllReduce(x.data(), x.data(), count, tuttiFloat, tuttiMax, comm, own.asTutti());
              };
              for (const size_t count : {size_t{3}, size_t{3}, x.count(), x.count()}) {
                RANK_TRY(sum(r.comm, count));
                tuttiComm_t pair = nullptr;  // which ends while the third rank goes on
                RANK_TRY(tuttiCommSplit(r.comm, r.rank < 2 ? 0 : TUTTI_SPLIT_NOCOLOR, 0, &pair, nullptr));
                if (pair != nullptr) RANK_TRY(sum(pair, count));
                if (pair != nullptr) RANK_TRY(tuttiCommDestroy(pair));
              }
              RANK_TRY(sum(r.comm, x.count()));
              return x.check(0, x.count(), 1);
            });
            together.arrive_and_wait();
            return why;
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("a proxy's endpoints have one pinned slot each way, however many messages there are") {
  const Variable way("TUTTI_CUDA_EXECUTOR", "proxy");
  const Gpu gpu;
  if (FakeCuda::get().calls == nullptr) return;
  const int atFirst = FakeCuda::get().calls("cuMemHostAlloc");
  CHECK(onGpuRanks(2, 1, [](const Rank& r, GpuRank& own) -> std::string {
          for (int round = 0; round < 3; ++round) {
            if (std::string why = checkAllReduce(r, own.options(2'000'001, false, 0, 0)); !why.empty()) return why;
          }
          return "";
        }) == "");
  CHECK(FakeCuda::get().calls("cuMemHostAlloc") - atFirst < 20);  // and there are some hundred messages
}
