// Tensors on a CUDA device: sums and hashes of them, and those of another place than the layer's.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_program.hpp"
#include "tutti/parallel/kernels.h"
#include "tutti/parallel/sums.h"
#include "tutti/parallel/tp.h"

using namespace tutti;
using namespace tutti::test;

TEST_CASE("sums of squares, hashes and guarded gradients on CUDA are those of the host") {
  resetDriver("devices=1");
  for (const bool special : {false, true}) {
    std::vector<float> values = numbers<float>(5001, 3);
    values[77] = 1e19f;  // its square has no room in the sum
    values[78] = 1e-30f;
    values[79] = 1e-42f;
    if (!special) values[77] = 12345.678f;
    double sums[2];
    uint64_t hashes[2];
    for (const int ordinal : {Place::kHost, 0}) {
      Place place(ordinal);
      const tuttiTensor_t t = place.hold(values);
      REQUIRE(tuttiSumOfSquares(&t, 1, nullptr, &sums[ordinal + 1]) == tuttiSuccess);
      REQUIRE(tuttiTensorHash(&t, 5, 3, &hashes[ordinal + 1]) == tuttiSuccess);
    }
    CHECK(sums[0] == sums[1]);
    CHECK(std::isinf(sums[0]) == special);
    CHECK(hashes[0] == hashes[1]);
  }
  {
    Place place(0);
    const CudaProgram program(place, 0, 1);
    tuttiDdpConfig_t c = ddpConfig(false, tuttiWireExact, true, 1);
    c.guard = 1;
    tuttiDdp_t ddp = nullptr;
    REQUIRE(tuttiDdpCreate(&ddp, nullptr, program.parameters.data(), 5, &c) == tuttiSuccess);
    CHECK(ddpStep(ddp, program) == "");
    REQUIRE(tuttiDdpBegin(ddp) == tuttiSuccess);
    tuttiTensor_t view;
    REQUIRE(tuttiDdpGradient(ddp, 1, &view) == tuttiSuccess);
    REQUIRE(tuttiDdpGradReady(ddp, 1) == tuttiSuccess);
    REQUIRE(addTo(view, program.gradients[0][1], 1) == tuttiSuccess);
    CHECK(tuttiDdpFinish(ddp) == tuttiInvalidUsage);
    CHECK(std::string(tuttiParallelGetLastError()).find("parameter 1 was written") != std::string::npos);
    CHECK(tuttiDdpDestroy(ddp) == tuttiSuccess);
  }
  CHECK(driverComplaints() == "");
}

TEST_CASE("memory of another place than the layer's is refused with a sentence") {
  resetDriver("devices=1");
  CHECK(onThreads(1, [&](int rank, const tuttiUniqueId& id) {
          Place place(0), host(Place::kHost);
          return asRank(rank, 1, id, place.config(), [&](const Rank& r) -> std::string {
            const CudaProgram here(place, 0, 1), there(host, 0, 1);
            tuttiDdp_t ddp = nullptr;
            RANK_CHECK(tuttiDdpCreate(&ddp, r.comm, there.parameters.data(), 5, nullptr) == tuttiInvalidUsage);
            RANK_CHECK(std::string(tuttiParallelGetLastError()).find("the memory of the host") != std::string::npos);
            const tuttiTensor_t x = here.parameters[0].value, y = there.parameters[0].value;
            RANK_CHECK(tuttiGelu(&x, &y) == tuttiInvalidUsage);
            RANK_CHECK(std::string(tuttiParallelGetLastError()).find("a CUDA device") != std::string::npos);
            tuttiDdp_t alone = nullptr;
            RANK_CHECK(tuttiDdpCreate(&alone, nullptr, std::vector{there.parameters[0], here.parameters[1]}.data(), 2,
                                      nullptr) == tuttiInvalidUsage);
            RANK_CHECK(std::string(tuttiParallelGetLastError()).find("all tensors of a handle") != std::string::npos);
            tuttiTp_t tp = nullptr;
            tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
            LAYER_TRY(tuttiKernelsFast(&kernels));
            tuttiTpConfig_t c = TUTTI_TP_CONFIG_INITIALIZER;
            c.kernels = &kernels;
            RANK_CHECK(tuttiTpCreate(&tp, r.comm, &c) == tuttiInvalidUsage);
            RANK_CHECK(std::string(tuttiParallelGetLastError()).find("host memory alone") != std::string::npos);
            LAYER_TRY(tuttiTpCreate(&tp, r.comm, nullptr));
            std::vector<int32_t> ids = {1};
            const int64_t cuts[] = {0, 7};
            const tuttiTensor_t which = tuttiVectorOf(ids.data(), tuttiInt32, 1);
            const tuttiTensor_t table = tuttiMatrixOf(y.data, tuttiFloat32, 7, 1, 1);
            RANK_CHECK(tuttiVocabEmbedding(tp, cuts, &which, &table, &y) == tuttiInvalidUsage);
            LAYER_TRY(tuttiTpDestroy(tp));
            return "";
          });
        }) == "");
  CHECK(driverComplaints() == "");
}
