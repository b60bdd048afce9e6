// One of a few ranks as processes that share CUDA devices: every collective through memory opened by IPC handles, and
// registered memory, which peers map by descriptors.
// Exit status 0 if every element was right and the driver has nothing to complain about.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/gpu.hpp"

using namespace tutti::test;

namespace {

/// Twice, so that what peers have mapped of the first is gone when the second is there.
std::string registered(const Rank& r, GpuRank& gpu) {
  constexpr size_t kCount = 200'003;
  const auto sum = static_cast<float>(r.nRanks * (r.nRanks + 1) / 2);
  for (int round = 0; round < 2; ++round) {
    const DeviceFloats x(gpu, kCount), y(gpu, kCount);
    void* handle = nullptr;
    RANK_TRY(tuttiCommRegister(r.comm, x.data(), x.bytes(), &handle));
    x.fill(static_cast<float>(r.rank + 1));
    RANK_TRY(tuttiAllReduce(x.data(), y.data(), kCount, tuttiFloat, tuttiSum, r.comm, gpu.asTutti()));
    if (std::string why = y.check(0, kCount, sum); !why.empty()) return "registered: " + why;
    RANK_TRY(tuttiBroadcast(x.data(), x.data(), kCount, tuttiFloat, r.nRanks - 1, r.comm, gpu.asTutti()));
    const auto last = static_cast<float>(r.nRanks);
    if (std::string why = x.check(0, kCount, last); !why.empty()) return "registered broadcast: " + why;
    RANK_TRY(tuttiCommDeregister(r.comm, handle));
  }
  const char* executor = std::getenv("TUTTI_CUDA_EXECUTOR");
  if (executor != nullptr && executor == std::string("proxy")) return "";  // copies through the host in any case
  const bool maps = FakeCuda::get().calls == nullptr || FakeCuda::get().calls("cuMemImportFromShareableHandle") > 0;
  return maps ? "" : "registered memory of other processes was not mapped";
}

std::string run(int devices) {
  const char* number = std::getenv("TUTTI_LOCAL_RANK");
  GpuRank gpu((number == nullptr ? 0 : std::atoi(number)) % devices);
  Rank r{};
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.device = TUTTI_DEVICE_CUDA;
  RANK_TRY(tuttiCommInitEnv(&r.comm, &config));
  tuttiCommUserRank(r.comm, &r.rank);
  tuttiCommCount(r.comm, &r.nRanks);
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{400'001}}) {
    for (const bool inPlace : {false, true}) {
      const CheckOptions o = gpu.options(count, inPlace, inPlace ? 0 : 4, r.nRanks - 1);
      if (std::string why = checkEverything(r, o); !why.empty()) return why;
    }
  }
  if (std::string why = registered(r, gpu); !why.empty()) return why;
  RANK_TRY(tuttiCommDestroy(r.comm));
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  setenv("TUTTI_DEVICE", "cuda", 1);
  const Gpu gpu(argc > 2 ? argv[2] : "devices=2");
  std::string why = run(argc > 1 ? std::atoi(argv[1]) : 1);
  if (why.empty()) why = Gpu::complaints();
  if (!why.empty()) std::fprintf(stderr, "%s\n", why.c_str());
  return why.empty() ? 0 : 1;
}
