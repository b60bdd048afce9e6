// One of a few ranks as processes that share CUDA devices: every collective through memory opened by IPC handles, and
// registered memory, which peers map by descriptors.
//   usage: cuda_ranks DEVICES [SETTINGS [host]]
//   SETTINGS  of tests/fake_cuda; % is the rank's number on its host
//   host      bytes are to pass through the host
// Exit status 0 if every element was right and the driver has nothing to complain about.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/gpu.hpp"

using namespace tutti::test;

namespace {

/// Twice, so that what peers have mapped of the first is gone when the second is there.
std::string registered(const Rank& r, GpuRank& gpu, bool byHost) {
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
  if (FakeCuda::get().calls == nullptr) return "";
  const bool maps = FakeCuda::get().calls("cuMemImportFromShareableHandle") > 0;
  if (byHost) return maps ? "registered memory of other processes was mapped" : "";
  return maps ? "" : "registered memory of other processes was not mapped";
}

int localRank() {
  const char* number = std::getenv("TUTTI_LOCAL_RANK");
  return number == nullptr ? 0 : std::atoi(number);
}

std::string run(int devices, bool byHost) {
  GpuRank gpu(localRank() % devices);
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
  if (std::string why = registered(r, gpu, byHost); !why.empty()) return why;
  RANK_TRY(tuttiCommDestroy(r.comm));
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  setenv("TUTTI_DEVICE", "cuda", 1);
  std::string settings = argc > 2 ? argv[2] : "devices=2";
  if (const size_t at = settings.find('%'); at != std::string::npos)
    settings.replace(at, 1, std::to_string(localRank()));
  const char* executor = std::getenv("TUTTI_CUDA_EXECUTOR");
  const bool byHost = argc > 3 || (executor != nullptr && executor == std::string("proxy"));
  const Gpu gpu(settings.c_str());
  std::string why = run(argc > 1 ? std::atoi(argv[1]) : 1, byHost);
  if (why.empty()) why = Gpu::complaints();
  if (!why.empty()) std::fprintf(stderr, "%s\n", why.c_str());
  return why.empty() ? 0 : 1;
}
