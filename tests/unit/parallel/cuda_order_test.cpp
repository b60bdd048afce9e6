// Handles on a CUDA device: in which order their work is done, and that nothing in a step waits for the device.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_program.hpp"

using namespace tutti;
using namespace tutti::test;

TEST_CASE("a step on CUDA waits for nothing, and takes no memory after the first") {
  resetDriver("devices=1");
  {
    Place place(0);
    const CudaProgram program(place, 0, 2);
    tuttiDdpConfig_t d = ddpConfig(true, tuttiWireExact, true, 2);
    tuttiZeroConfig_t z = zeroConfig(3, true, tuttiAdamW);
    z.microBatches = 2;
    tuttiDdp_t ddp = nullptr;
    tuttiZero_t zero = nullptr;
    REQUIRE(tuttiDdpCreate(&ddp, nullptr, program.parameters.data(), 5, &d) == tuttiSuccess);
    REQUIRE(tuttiZeroCreate(&zero, nullptr, program.parameters.data(), kCudaUnits, 5, &z) == tuttiSuccess);
    for (int s = 0; s < 4; ++s) {
      const auto waits = [] {
        return callsOf(
            {"cuStreamQuery", "cuStreamSynchronize", "cuCtxSynchronize", "cuEventQuery", "cuEventSynchronize"});
      };
      const auto takes = [] {
        return callsOf(
            {"cuMemAlloc", "cuMemAllocAsync", "cuMemFree", "cuMemFreeAsync", "cuModuleLoadData", "cuStreamCreate"});
      };
      const int waited = waits(), taken = takes();
      CHECK(ddpStep(ddp, program) == "");
      CHECK(zeroStep(zero, program, nullptr) == "");
      if (s >= 2) CHECK(waits() == waited);  // the first rebuilds the buckets, which the second fills
      if (s >= 2) CHECK(takes() == taken);
    }
    CHECK(tuttiDdpDestroy(ddp) == tuttiSuccess);
    CHECK(tuttiZeroDestroy(zero) == tuttiSuccess);
  }
  CHECK(driverComplaints() == "");
}

TEST_CASE("a handle's work keeps its order when its owner goes on with other streams") {
  resetDriver("devices=1;delay=300");
  std::vector<std::vector<float>> results[2] = {zeroRoom(), zeroRoom()};
  const cuda::Driver& d = **cuda::driver();
  for (const int ordinal : {Place::kHost, 0}) {
    Place place(ordinal);
    const CudaProgram program(place, 0, 2);
    cuda::Stream streams[3] = {};  // the first is the default stream
    for (int i = 1; i < 3 && !place.onHost(); ++i) d.cuStreamCreate(&streams[i], cuda::kStreamNonBlocking);
    tuttiZeroConfig_t c = zeroConfig(3, true, tuttiAdamW);
    c.microBatches = 2;
    tuttiZero_t zero = nullptr;
    REQUIRE(tuttiZeroCreate(&zero, nullptr, program.parameters.data(), kCudaUnits, 5, &c) == tuttiSuccess);
    for (int s = 0; s < 5; ++s) {
      tuttiParallelSetStream(reinterpret_cast<tuttiStream_t>(streams[s % 3]));
      CHECK(zeroStep(zero, program, nullptr) == "");
    }
    if (!place.onHost()) CHECK(d.cuCtxSynchronize() == cuda::kSuccess);
    for (size_t p = 0; p < kCudaSizes.size(); ++p) {
      int64_t begin = 0, end = 0;
      tuttiTensor_t mine;
      REQUIRE(tuttiZeroOwned(zero, p, &begin, &end, &mine) == tuttiSuccess);
      results[ordinal + 1][p] = place.read(mine);
    }
    CHECK(tuttiZeroDestroy(zero) == tuttiSuccess);
    for (int i = 1; i < 3 && !place.onHost(); ++i) d.cuStreamDestroy(streams[i]);
  }
  CHECK(results[0] == results[1]);
  CHECK(driverComplaints() == "");
}
