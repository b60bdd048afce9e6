// One of a few ranks as processes that share CUDA devices: every collective through memory opened by IPC handles.
// Exit status 0 if every element was right and the driver has nothing to complain about.
#include <cstdio>
#include <cstdlib>

#include "tests/support/gpu.hpp"

using namespace tutti::test;

namespace {

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
  RANK_TRY(tuttiCommDestroy(r.comm));
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  const Gpu gpu(argc > 2 ? argv[2] : "devices=2");
  std::string why = run(argc > 1 ? std::atoi(argv[1]) : 1);
  if (why.empty()) why = Gpu::complaints();
  if (!why.empty()) std::fprintf(stderr, "%s\n", why.c_str());
  return why.empty() ? 0 : 1;
}
