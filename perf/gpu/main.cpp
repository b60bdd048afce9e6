// gpu_bench: collectives of ranks that are threads and share devices, beside NCCL where it can.  See README.md.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "perf/gpu/rank.hpp"
#include "tools/version.hpp"

using namespace tutti;
using namespace tutti::gpuperf;

namespace {

/// Of the first device.
Limits limitsOf(const Options& options) {
  auto device = cuda::CudaDevice::open(options.devices[0]);
  must(device.ok() ? Status() : device.status());
  const cuda::CudaScope scope(**device);
  cuda::Stream stream = nullptr;
  const cuda::Driver& driver = (*device)->driver();
  must(cuda::check(driver, driver.cuStreamCreate(&stream, cuda::kStreamNonBlocking), "cuStreamCreate"));
  const auto limits = measureLimits(*device, stream, std::min(options.maxBytes, size_t{1} << 30));
  must(limits.ok() ? Status() : limits.status());
  driver.cuStreamDestroy(stream);
  return *limits;
}

/// Why `library` is not asked for so many ranks; empty if it is.  NCCL has no communicator in which ranks share a
/// device, but where a newer one is told to try (2.30, experimental).
std::string whyNot(const Library& library, const Options& options, int nRanks) {
  if (library.name == "tutti" || static_cast<size_t>(nRanks) <= options.devices.size()) return "";
  const char* allowed = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (allowed != nullptr && std::string(allowed) == "1") return "";
  return "NCCL takes one rank for each device, and " + std::to_string(options.devices.size()) + " are given";
}

void measure(const Options& options, const Library& library, const Limits& limits, int nRanks, int64_t endNs) {
  Run run(options, library, limits, nRanks, endNs);
  run.refusal = whyNot(library, options, nRanks);
  if (run.refusal.empty()) {
    if (library.getUniqueId(&run.id) != tuttiSuccess) stop(library.name + ": " + library.getLastError(nullptr));
    std::vector<std::thread> threads;
    for (int r = 0; r < nRanks; ++r) {
      threads.emplace_back([&run, r] { Rank(run, r).measureAll(); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  if (run.refusal.empty()) return;
  if (library.name == "tutti") stop(run.refusal);
  std::printf("# %s has no figures for %d ranks: %s\n", library.name.c_str(), nRanks, run.refusal.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const Options options = parse(argc, argv);
  const int64_t endNs = nowNs() + static_cast<int64_t>(options.seconds * 1e9);
  std::vector<Library> libraries{tuttiLibrary()};
  if (!options.ncclPath.empty()) {
    auto nccl = ncclLibrary(options.ncclPath.c_str());
    must(nccl.ok() ? Status() : nccl.status());
    libraries.push_back(*nccl);
  }
  const Limits limits = limitsOf(options);
  std::printf("# copy %.1f GB/s (read and written), empty launch %.2f us\n", limits.copyGBps, limits.launchUs);
  std::printf("# library\tcollective\tranks\tbytes\tus\tbusbw GB/s\tof copy bandwidth\tof a launch\n");
  for (const int nRanks : options.ranks) {
    for (const Library& library : libraries) measure(options, library, limits, nRanks, endNs);
  }
  return 0;
}
