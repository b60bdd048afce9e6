// Layers that send CUDA memory from rank to rank, beside the host: tokens to experts, pipelines of stages.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_support.hpp"
#include "tutti/parallel/ep.h"
#include "tutti/parallel/pp.h"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr int64_t kExpertWidth = 5;
constexpr int kCudaExperts = 5, kCudaChoices = 2;

struct CudaLoad {
  bool idsOnDevice;
  int64_t capacity, tokensPerRank;  // of rank r: r times that
};

void append(Place& place, const tuttiTensor_t& t, Results* results) {
  const std::vector<float> part = place.read(t);
  results->insert(results->end(), part.begin(), part.end());
}

/// All four calls; an expert hands on what it gets.
std::string runExperts(const CudaLoad& load, const Rank& r, Place& place, Results* results) {
  const int64_t owners[] = {0, 4, 4, 5};  // the second has none
  tuttiEpConfig_t c = TUTTI_EP_CONFIG_INITIALIZER;
  c.experts = kCudaExperts;
  c.choices = kCudaChoices;
  c.owners = owners;
  c.capacity = load.capacity;
  tuttiEp_t ep = nullptr;
  LAYER_TRY(tuttiEpCreate(&ep, r.comm, &c));
  const int64_t tokens = load.tokensPerRank * r.rank, pairs = tokens * kCudaChoices;
  std::vector<int32_t> which;
  for (int64_t p = 0; p < pairs; ++p) which.push_back(static_cast<int32_t>((p / 2 * 3 + p % 2) % kCudaExperts));
  tuttiTensor_t ids = tuttiMatrixOf(which.data(), tuttiInt32, tokens, kCudaChoices, kCudaChoices);
  if (load.idsOnDevice) {
    const tuttiTensor_t there = place.holdInts(which);
    ids.data = there.data;
    ids.device = there.device;
  }
  const auto seed = static_cast<uint64_t>(r.rank) + 1;
  for (int pass = 0; pass < 2; ++pass) {
    int64_t received = 0;
    LAYER_TRY(tuttiEpRoute(ep, &ids, &received, nullptr));
    const tuttiTensor_t x = held(place, tokens, kExpertWidth, seed), y = held(place, received, kExpertWidth, 0);
    const tuttiTensor_t weights = held(place, tokens, kCudaChoices, seed + 10),
                        out = held(place, tokens, kExpertWidth, 0);
    const tuttiTensor_t dweights = held(place, tokens, kCudaChoices, 0), dx = held(place, tokens, kExpertWidth, 0);
    void* kept = place.hold(Results(static_cast<size_t>(pairs * kExpertWidth), 9)).data;
    LAYER_TRY(tuttiEpDispatch(ep, &x, &y));
    LAYER_TRY(tuttiEpCombine(ep, &y, &weights, &out, kept));
    append(place, y, results);
    append(place, out, results);
    LAYER_TRY(tuttiEpCombineBackward(ep, &out, &weights, kept, &y, &dweights));
    LAYER_TRY(tuttiEpDispatchBackward(ep, &y, &dx));
    append(place, dweights, results);
    append(place, dx, results);
  }
  LAYER_TRY(tuttiEpDestroy(ep));
  return "";
}

constexpr size_t kBoundary = 700;
constexpr int kMicroBatches = 5, kPipelineSteps = 3;

struct PipelineWay {
  const char* name;
  int nRanks, chunks;
};

/// Stages that add a multiple of a number of their own to what flows through them, and keep what arrives at both ends.
struct CudaStages {
  Place& place;
  tuttiTensor_t weight = place.hold(numbers<float>(kBoundary, 5));
  std::vector<tuttiTensor_t> ends;  // of each micro-batch: at the last stage, at the first
  int stages = 0;

  explicit CudaStages(Place& p) : place(p) {
    for (int i = 0; i < 2 * kMicroBatches; ++i) ends.push_back(place.hold(Results(kBoundary)));
  }
  tuttiTensor_t view(void* data) const {
    tuttiTensor_t t = weight;
    t.data = data;
    return t;
  }
  tuttiResult_t flow(int stage, int micro, const void* in, void* out, bool back) {
    const tuttiTensor_t to = out != nullptr ? view(out) : ends[static_cast<size_t>(2 * micro + back)];
    place.copy(to.data, in != nullptr ? in : weight.data, kBoundary);
    return addTo(to, weight, 0.5 * (stage + 1) + micro + (back ? 0.25 : 0));
  }
};

std::string runPipeline(const PipelineWay& way, const Rank& r, Place& place, Results* results) {
  tuttiSchedule_t schedule = nullptr;
  LAYER_TRY(tuttiScheduleCreate(&schedule, way.name, r.nRanks, way.chunks, kMicroBatches));
  CudaStages mine(place);
  tuttiStages_t calls = TUTTI_STAGES_INITIALIZER;
  calls.context = &mine;
  calls.device = place.onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
  calls.forward = [](void* self, int stage, int micro, const void* in, void* out) {
    return static_cast<CudaStages*>(self)->flow(stage, micro, in, out, false);
  };
  calls.backward = [](void* self, int stage, int micro, const void* dout, void* din, int) {
    return static_cast<CudaStages*>(self)->flow(stage, micro, dout, din, true);
  };
  calls.backwardWeight = [](void*, int, int) { return tuttiSuccess; };
  tuttiPipeline_t pipeline = nullptr;
  LAYER_TRY(tuttiPipelineCreate(&pipeline, r.comm, schedule, kBoundary, tuttiFloat32, &calls));
  for (int s = 0; s < kPipelineSteps; ++s) LAYER_TRY(tuttiPipelineStep(pipeline));
  for (const tuttiTensor_t& t : mine.ends) append(place, t, results);
  tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER, expected = counted;
  LAYER_TRY(tuttiPipelineTraffic(pipeline, &counted, &expected));
  for (int call = 0; call < tuttiNumCalls; ++call) {
    RANK_CHECK(counted.bytes[call] == kPipelineSteps * expected.bytes[call]);
  }
  LAYER_TRY(tuttiPipelineDestroy(pipeline));
  LAYER_TRY(tuttiScheduleDestroy(schedule));
  return "";
}

void sameOnDevices(int nRanks, int devices, const Pass& pass) {
  std::vector<Results> host, device;
  CHECK(runPass(nRanks, 0, pass, &host) == "");
  CHECK(runPass(nRanks, devices, pass, &device) == "");
  for (size_t r = 0; r < host.size(); ++r) {
    CHECK(apart(device[r], host[r]) < 1e-6);
    if (onFakeDriver()) CHECK(device[r] == host[r]);
  }
}

}  // namespace

TEST_CASE("tokens go to experts and back on CUDA devices as on the host") {
  const Variable driver = eachDriver("devices=2;delay=30");
  const int devices = hasDevices(2) ? 2 : 1;
  for (const CudaLoad& load : {CudaLoad{false, 0, 4}, CudaLoad{true, 2, 6}}) {
    CAPTURE(load.idsOnDevice, load.capacity);
    sameOnDevices(3, devices,
                  [&](const Rank& r, Place& place, Results* results) { return runExperts(load, r, place, results); });
  }
  CHECK(driverComplaints() == "");
}

TEST_CASE("pipelines of CUDA devices send what those of the host send") {
  const Variable driver = eachDriver("devices=2;delay=30");
  const int devices = hasDevices(2) ? 2 : 1;
  for (const PipelineWay& way :
       {PipelineWay{"1f1b", 3, 1}, PipelineWay{"interleaved", 2, 2}, PipelineWay{"breadth-first", 2, 2},
        PipelineWay{"zbv", 2, 1}, PipelineWay{"gpipe", 1, 1}}) {
    CAPTURE(way.name);
    sameOnDevices(way.nRanks, devices,
                  [&](const Rank& r, Place& place, Results* results) { return runPipeline(way, r, place, results); });
  }
  CHECK(driverComplaints() == "");
}
