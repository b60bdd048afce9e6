// Sharding (ZeRO) on CUDA memory, as on the host.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_program.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// Steps of a rank; what all ranks own, put together by a sum in double on the host.
std::string runZero(int rank, int nRanks, tuttiComm_t comm, Place& place, tuttiZeroConfig_t c,
                    std::vector<std::vector<float>>* whole, double* norm) {
  c.microBatches = kCudaLeaves / nRanks;
  const CudaProgram program(place, rank * c.microBatches, c.microBatches);
  tuttiZero_t zero = nullptr;
  LAYER_TRY(tuttiZeroCreate(&zero, comm, program.parameters.data(), kCudaUnits, program.parameters.size(), &c));
  for (int s = 0; s < kCudaSteps; ++s) {
    if (const std::string why = zeroStep(zero, program, s + 1 < kCudaSteps ? nullptr : norm); !why.empty()) return why;
  }
  for (size_t p = 0; p < kCudaSizes.size(); ++p) {
    int64_t begin = 0, end = 0;
    tuttiTensor_t mine;
    LAYER_TRY(tuttiZeroOwned(zero, p, &begin, &end, &mine));
    const std::vector<float> part = place.read(mine);
    std::copy(part.begin(), part.end(), (*whole)[p].begin() + begin);
  }
  tuttiZeroReport_t report = TUTTI_ZERO_REPORT_INITIALIZER;
  LAYER_TRY(tuttiZeroReport(zero, &report));
  RANK_CHECK(report.bytesNow == report.bytesExpected && report.bytesPeak <= report.bytesPeakExpected);
  LAYER_TRY(tuttiZeroDestroy(zero));
  return "";
}
}  // namespace

TEST_CASE("all stages of ZeRO train on CUDA devices as one rank does on the host") {
  const Variable driver = eachDriver("devices=2;delay=50");
  const int devices = hasDevices(2) ? 2 : 1;
  for (const int kind : {tuttiAdamW, tuttiMomentum}) {
    Place host(Place::kHost);
    auto expected = zeroRoom();
    double norm = 0;
    REQUIRE(runZero(0, 1, nullptr, host, zeroConfig(0, true, kind), &expected, &norm) == "");
    for (int stage = 0; stage <= 3; ++stage) {
      for (const int variant : {0, 1, 2}) {
        if (kind == tuttiMomentum && (stage != 3 || variant != 1)) continue;
        if (stage % 2 == 0 && variant != 1) continue;
        const bool invariant = variant != 0, plain = variant == 2;
        const int nRanks = plain ? 3 : 2;
        CAPTURE(kind, stage, invariant, plain);
        auto values = zeroRoom();
        std::vector<double> norms(static_cast<size_t>(nRanks));
        CHECK(onThreads(nRanks, [&](int rank, const tuttiUniqueId& id) {
                Place place(rank % devices);
                return asRank(rank, nRanks, id, place.config(), [&](const Rank& r) {
                  tuttiZeroConfig_t c = zeroConfig(stage, invariant, kind);
                  if (plain) c.overlap = c.prefetch = c.reshardAfterForward = 0;
                  return runZero(r.rank, nRanks, r.comm, place, c, &values, &norms[static_cast<size_t>(rank)]);
                });
              }) == "");
        for (size_t p = 0; p < kCudaSizes.size(); ++p) {
          CHECK(apart(values[p], expected[p]) < 1e-4);
          if (invariant) CHECK(values[p] == expected[p]);
        }
        for (const double n : norms) CHECK((invariant ? n == norm : std::abs(n - norm) < 1e-4 * norm));
      }
    }
  }
  CHECK(driverComplaints() == "");
}

TEST_CASE("hybrid sharding on CUDA sums over replicas too") {
  resetDriver("devices=2");
  const int devices = hasDevices(2) ? 2 : 1;
  Place host(Place::kHost);
  auto expected = zeroRoom(), values = zeroRoom();
  double norm = 0;
  // Replicas compute the same micro-batches, so that the average is that of one of them.
  REQUIRE(runZero(0, 1, nullptr, host, zeroConfig(0, true, tuttiAdamW), &expected, &norm) == "");
  CHECK(onThreads(4, [&](int rank, const tuttiUniqueId& id) {
          Place place(rank % devices);
          return asRank(rank, 4, id, place.config(), [&](const Rank& r) -> std::string {
            tuttiComm_t shard = nullptr;
            tuttiZeroConfig_t c = zeroConfig(1, false, tuttiAdamW);
            RANK_TRY(tuttiCommSplit(r.comm, r.rank / 2, r.rank, &shard, nullptr));
            RANK_TRY(tuttiCommSplit(r.comm, r.rank % 2, r.rank, &c.replicas, nullptr));
            auto other = zeroRoom();
            double length = 0;
            const std::string why = runZero(r.rank % 2, 2, shard, place, c, r.rank < 2 ? &values : &other, &length);
            if (!why.empty()) return why;
            RANK_TRY(tuttiCommDestroy(shard));
            RANK_TRY(tuttiCommDestroy(c.replicas));
            return "";
          });
        }) == "");
  for (size_t p = 0; p < kCudaSizes.size(); ++p) CHECK(apart(values[p], expected[p]) < 1e-4);
  CHECK(driverComplaints() == "");
}

TEST_CASE("values in bfloat16 are rounded on CUDA as on the host") {
  resetDriver("devices=1");
  for (const int stage : {1, 3}) {
    std::vector<std::vector<float>> results[2] = {zeroRoom(), zeroRoom()};
    for (const int place : {Place::kHost, 0}) {
      Place here(place);
      tuttiZeroConfig_t c = zeroConfig(stage, false, tuttiAdamW, 0);
      c.values = tuttiBfloat16;
      double norm = 0;
      CHECK(runZero(0, 1, nullptr, here, c, &results[place + 1], &norm) == "");
    }
    CHECK(results[0] == results[1]);
  }
  CHECK(driverComplaints() == "");
}
