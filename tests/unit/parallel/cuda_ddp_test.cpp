// Data parallelism on CUDA memory: bit for bit as on the host where sums are layout-invariant.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_program.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

struct Outcome {
  std::vector<float> values;
  double norm = 0;
};
/// Steps of rank `rank` of nRanks; gradients after the last.  Ranks have different numbers of micro-batches.
std::string runDdp(int rank, int nRanks, tuttiComm_t comm, Place& place, tuttiDdpConfig_t c, Outcome* outcome) {
  std::vector<int64_t> cuts(static_cast<size_t>(nRanks) + 1);
  LAYER_TRY(tuttiSplitEven(kCudaLeaves, 1, nRanks, nullptr, cuts.data()));
  const int64_t begin = cuts[static_cast<size_t>(rank)] + (rank == 1),
                end = cuts[static_cast<size_t>(rank) + 1] + (rank == 0 && nRanks > 1);
  c.microBatches = static_cast<int>(end - begin);
  const CudaProgram program(place, static_cast<int>(begin), c.microBatches);
  tuttiDdp_t ddp = nullptr;
  LAYER_TRY(tuttiDdpCreate(&ddp, comm, program.parameters.data(), program.parameters.size(), &c));
  for (int s = 0; s < kCudaSteps; ++s) {
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
    all.calls[call] *= kCudaSteps;
    all.bytes[call] *= kCudaSteps;
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
  const Variable driver = eachDriver("devices=2;delay=100");
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

TEST_CASE("who waits for an aborted rank's gradients on CUDA comes back with an error") {
  resetDriver("devices=2");
  const int devices = hasDevices(2) ? 2 : 1;
  CHECK(onThreads(2, [&](int rank, const tuttiUniqueId& id) -> std::string {
          Place place(rank % devices);
          tuttiConfig_t config = place.config();
          tuttiComm_t comm = nullptr;
          RANK_TRY(tuttiCommInitRankConfig(&comm, 2, id, rank, &config));
          tuttiDdpConfig_t c = ddpConfig(false, tuttiWireExact, true, 1);
          const CudaProgram program(place, rank, 1);
          tuttiDdp_t ddp = nullptr;
          LAYER_TRY(tuttiDdpCreate(&ddp, comm, program.parameters.data(), 5, &c));
          const std::string first =
              ddpStep(ddp, program);  // the other may be through with it, and abort, before this one
          if (rank == 1) {
            if (!first.empty()) return first;
            RANK_TRY(tuttiCommAbort(comm));
            LAYER_TRY(tuttiDdpDestroy(ddp));
            return "";
          }
          // What was enqueued before it is known that the other is gone succeeds; no step after that does.
          tuttiResult_t result = first.empty() ? tuttiSuccess : tuttiRemoteError;
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
