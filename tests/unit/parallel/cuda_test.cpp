// Training layers on CUDA memory, on the test driver or a real one: the same program as on the host, bit for bit where
// sums are layout-invariant, and nothing that waits for the device inside of a step.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_support.hpp"
#include "tutti/parallel/kernels.h"
#include "tutti/parallel/sums.h"
#include "tutti/parallel/tp.h"
#include "tutti/parallel/zero.h"

using namespace tutti;
using namespace tutti::test;

namespace {

const std::vector<int64_t> kCudaSizes = {7, 300, 1, 1500, 29};
const int kCudaUnits[] = {0, 0, 1, 1, 2};
constexpr int kCudaLeaves = 6, kSteps = 3;

/// Values, and what makes the gradients of some micro-batches, where the rank computes.
struct Program {
  Program(Place& place, int first, int count) {
    static const char* const names[] = {"a", "b", "c", "d", "e"};
    for (size_t p = 0; p < kCudaSizes.size(); ++p) {
      const size_t n = static_cast<size_t>(kCudaSizes[p]);
      parameters.push_back({names[p], place.hold(numbers<float>(n, 50 + p)), p == 2 ? TUTTI_PARAMETER_NO_DECAY : 0});
    }
    for (int leaf = first; leaf < first + count; ++leaf) {
      gradients.emplace_back();
      for (size_t p = 0; p < kCudaSizes.size(); ++p) {
        const uint64_t seed = static_cast<uint64_t>(leaf) * 10 + p + 1;
        gradients.back().push_back(place.hold(numbers<float>(static_cast<size_t>(kCudaSizes[p]), seed)));
      }
    }
  }
  std::vector<tuttiParameter_t> parameters;
  std::vector<std::vector<tuttiTensor_t>> gradients;
};

struct Outcome {
  std::vector<float> values;
  double norm = 0;
};

std::string ddpStep(tuttiDdp_t ddp, const Program& program) {
  for (const auto& leaf : program.gradients) {
    LAYER_TRY(tuttiDdpBegin(ddp));
    for (size_t p = kCudaSizes.size(); p-- > 0;) {
      tuttiTensor_t view;
      LAYER_TRY(tuttiDdpGradient(ddp, p, &view));
      LAYER_TRY(addTo(view, leaf[p], 1));
      LAYER_TRY(tuttiDdpGradReady(ddp, p));
    }
  }
  LAYER_TRY(tuttiDdpFinish(ddp));
  return "";
}

tuttiDdpConfig_t ddpConfig(bool invariant, int wire, bool overlap, int microBatches) {
  tuttiDdpConfig_t c = TUTTI_DDP_CONFIG_INITIALIZER;
  c.bucketBytes = 1024;
  c.firstBucketBytes = 100;
  c.numerics = invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  c.wire = wire;
  c.overlap = overlap;
  c.microBatches = microBatches;
  return c;
}

/// Steps of rank `rank` of nRanks; gradients after the last.  Ranks have different numbers of micro-batches.
std::string runDdp(int rank, int nRanks, tuttiComm_t comm, Place& place, tuttiDdpConfig_t c, Outcome* outcome) {
  std::vector<int64_t> cuts(static_cast<size_t>(nRanks) + 1);
  LAYER_TRY(tuttiSplitEven(kCudaLeaves, 1, nRanks, nullptr, cuts.data()));
  const int64_t begin = cuts[static_cast<size_t>(rank)] + (rank == 1),
                end = cuts[static_cast<size_t>(rank) + 1] + (rank == 0 && nRanks > 1);
  c.microBatches = static_cast<int>(end - begin);
  const Program program(place, static_cast<int>(begin), c.microBatches);
  tuttiDdp_t ddp = nullptr;
  LAYER_TRY(tuttiDdpCreate(&ddp, comm, program.parameters.data(), program.parameters.size(), &c));
  for (int s = 0; s < kSteps; ++s) {
    if (const std::string why = ddpStep(ddp, program); !why.empty()) return why;
  }
  outcome->values.clear();
  for (size_t p = 0; p < kCudaSizes.size(); ++p) {
    tuttiTensor_t view;
    LAYER_TRY(tuttiDdpGradient(ddp, p, &view));
    RANK_CHECK(view.device == (place.onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA));
    const std::vector<float> part = place.read(view);
    outcome->values.insert(outcome->values.end(), part.begin(), part.end());
  }
  tuttiDdpReport_t report = TUTTI_DDP_REPORT_INITIALIZER;
  LAYER_TRY(tuttiDdpReport(ddp, &report));
  tuttiTraffic_t all = report.expected;
  for (int call = 0; call < tuttiNumCalls; ++call) {
    all.calls[call] *= kSteps;
    all.bytes[call] *= kSteps;
  }
  for (int call = 0; call < tuttiNumCalls && c.firstBucketBytes == c.bucketBytes; ++call) {
    RANK_CHECK(all.bytes[call] == report.traffic.bytes[call]);
  }
  LAYER_TRY(tuttiDdpDestroy(ddp));
  return "";
}

/// `body` on ranks on the host (devices = 0) or on that many CUDA devices; rank 0's outcome.
template <class Body>
Outcome onPlaces(int nRanks, int devices, const Body& body) {
  std::vector<Outcome> outcomes(static_cast<size_t>(nRanks));
  CHECK(onThreads(nRanks, [&](int rank, const tuttiUniqueId& id) {
          Place place(devices == 0 ? Place::kHost : rank % devices);
          return asRank(rank, nRanks, id, place.config(), [&](const Rank& r) {
            return body(r.rank, r.nRanks, r.comm, place, &outcomes[static_cast<size_t>(rank)]);
          });
        }) == "");
  for (const Outcome& o : outcomes) CHECK(o.values == outcomes[0].values);
  return outcomes[0];
}

}  // namespace

TEST_CASE("data parallelism on CUDA devices sums as on the host") {
  resetDriver("devices=2;delay=100");
  const int devices = hasDevices(2) ? 2 : 1;
  struct Row {
    bool invariant;
    int wire;
    bool overlap;
  };
  for (const Row& row :
       {Row{true, tuttiWireExact, true}, Row{true, tuttiWireExact, false}, Row{false, tuttiWireExact, true},
        Row{false, tuttiWireBf16, true}, Row{false, tuttiWireInt8, false}}) {
    CAPTURE(row.invariant, row.wire, row.overlap);
    const auto run = [&](int rank, int nRanks, tuttiComm_t comm, Place& place, Outcome* outcome) {
      return runDdp(rank, nRanks, comm, place, ddpConfig(row.invariant, row.wire, row.overlap, 0), outcome);
    };
    const Outcome onHost = onPlaces(3, 0, run), onDevices = onPlaces(3, devices, run);
    CHECK(apart(onDevices.values, onHost.values) < 1e-6);
    if (row.invariant || row.wire != tuttiWireExact) CHECK(onDevices.values == onHost.values);
    if (!row.invariant) continue;
    Place place(0);
    Outcome alone;
    CHECK(runDdp(0, 1, nullptr, place, ddpConfig(true, tuttiWireExact, row.overlap, 0), &alone) == "");
    CHECK(alone.values == onHost.values);
  }
  CHECK(driverComplaints() == "");
}

namespace {

std::string zeroPass(tuttiZero_t zero, const std::vector<tuttiTensor_t>& leaf, bool backward) {
  for (int i = 0; i < 3; ++i) {
    const int unit = backward ? 2 - i : i;
    LAYER_TRY(tuttiZeroUnshard(zero, unit));
    for (size_t p = 0; p < kCudaSizes.size() && backward; ++p) {
      if (kCudaUnits[p] != unit) continue;
      tuttiTensor_t value, gradient;
      LAYER_TRY(tuttiZeroValue(zero, p, &value));
      LAYER_TRY(tuttiZeroGradient(zero, p, &gradient));
      LAYER_TRY(addTo(gradient, leaf[p], 1));
      if (value.dtype == tuttiFloat32) LAYER_TRY(addTo(gradient, value, 0.3));  // so that errors in values spread
      LAYER_TRY(tuttiZeroGradReady(zero, p));
    }
    LAYER_TRY(tuttiZeroReshard(zero, unit, !backward));
  }
  return "";
}
std::string zeroStep(tuttiZero_t zero, const Program& program, double* norm) {
  for (const auto& leaf : program.gradients) {
    LAYER_TRY(tuttiZeroBegin(zero));
    for (const bool backward : {false, true}) {
      if (const std::string why = zeroPass(zero, leaf, backward); !why.empty()) return why;
    }
  }
  LAYER_TRY(tuttiZeroStep(zero, norm));
  return "";
}

tuttiZeroConfig_t zeroConfig(int stage, bool invariant, int kind, double clip = 5) {
  tuttiZeroConfig_t c = TUTTI_ZERO_CONFIG_INITIALIZER;
  c.stage = stage;
  c.numerics = invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  c.optimizer.kind = kind;
  c.optimizer.learningRate = 0.05;
  c.clip = clip;
  return c;
}

/// Steps of a rank; what all ranks own, put together by a sum in double on the host.
std::string runZero(int rank, int nRanks, tuttiComm_t comm, Place& place, tuttiZeroConfig_t c,
                    std::vector<std::vector<float>>* whole, double* norm) {
  c.microBatches = kCudaLeaves / nRanks;
  const Program program(place, rank * c.microBatches, c.microBatches);
  tuttiZero_t zero = nullptr;
  LAYER_TRY(tuttiZeroCreate(&zero, comm, program.parameters.data(), kCudaUnits, program.parameters.size(), &c));
  for (int s = 0; s < kSteps; ++s) {
    if (const std::string why = zeroStep(zero, program, s + 1 < kSteps ? nullptr : norm); !why.empty()) return why;
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

std::vector<std::vector<float>> zeroRoom() {
  std::vector<std::vector<float>> room;
  for (const int64_t n : kCudaSizes) room.emplace_back(static_cast<size_t>(n));
  return room;
}

}  // namespace

TEST_CASE("all stages of ZeRO train on CUDA devices as one rank does on the host") {
  resetDriver("devices=2;delay=50");
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

TEST_CASE("a step on CUDA waits for nothing, and takes no memory after the first") {
  resetDriver("devices=1");
  {
    Place place(0);
    const Program program(place, 0, 2);
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
      const auto takes = [] { return callsOf({"cuMemAlloc", "cuMemFree", "cuModuleLoadData", "cuStreamCreate"}); };
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
  const auto& d = parallel::cudaDriver();
  for (const int ordinal : {Place::kHost, 0}) {
    Place place(ordinal);
    const Program program(place, 0, 2);
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
    const Program program(place, 0, 1);
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
            const Program here(place, 0, 1), there(host, 0, 1);
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

TEST_CASE("who waits for an aborted rank's gradients on CUDA comes back with an error") {
  resetDriver("devices=2");
  const int devices = hasDevices(2) ? 2 : 1;
  CHECK(onThreads(2, [&](int rank, const tuttiUniqueId& id) -> std::string {
          Place place(rank % devices);
          tuttiConfig_t config = place.config();
          tuttiComm_t comm = nullptr;
          RANK_TRY(tuttiCommInitRankConfig(&comm, 2, id, rank, &config));
          tuttiDdpConfig_t c = ddpConfig(false, tuttiWireExact, true, 1);
          const Program program(place, rank, 1);
          tuttiDdp_t ddp = nullptr;
          LAYER_TRY(tuttiDdpCreate(&ddp, comm, program.parameters.data(), 5, &c));
          if (std::string why = ddpStep(ddp, program); !why.empty()) return why;
          if (rank == 1) {
            RANK_TRY(tuttiCommAbort(comm));
            LAYER_TRY(tuttiDdpDestroy(ddp));
            return "";
          }
          // What was enqueued before it is known that the other is gone succeeds; no step after that does.
          tuttiResult_t result = tuttiSuccess;
          for (int s = 0; s < 1000 && result == tuttiSuccess; ++s) {
            if (!ddpStep(ddp, program).empty()) result = tuttiRemoteError;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          RANK_CHECK(result == tuttiRemoteError);
          RANK_CHECK(std::string(tuttiParallelGetLastError()) != "");
          LAYER_TRY(tuttiDdpDestroy(ddp));
          tuttiCommAbort(comm);
          return "";
        }) == "");
}
