// A rank leaves by its first communicator alone and keeps its layers: nobody waits in what they have split off.
#include <catch2/catch.hpp>

#include <string>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/dp.h"
#include "tutti/parallel/grid.h"
#include "tutti/parallel/pp.h"
#include "tutti/parallel/tp.h"
#include "tutti/parallel/zero.h"

using namespace tutti::test;

namespace {

enum class EndingLayer { Ddp, Zero, Pipeline };

std::string namesRank3(tuttiResult_t result) {
  const std::string text = tuttiParallelGetLastError();
  if (result == tuttiRemoteError && text.find("rank 3 has ") != std::string::npos) return "";
  return "gave " + std::to_string(result) + ": " + text;
}

/// The news may come before a layer ends, or while it does.
std::string endsOrNamesRank3(tuttiResult_t result) { return result == tuttiSuccess ? "" : namesRank3(result); }

/// A layer over the ranks of `comm`, made together, and one step of it.
class LayerUnderWay {
 public:
  std::string create(EndingLayer kind, tuttiComm_t comm) {
    const tuttiParameter_t parameter = {"a", vector(values_), 0};
    const int unit = 0;
    if (kind == EndingLayer::Ddp) LAYER_TRY(tuttiDdpCreate(&ddp_, comm, &parameter, 1, nullptr));
    if (kind == EndingLayer::Zero) {
      tuttiZeroConfig_t c = TUTTI_ZERO_CONFIG_INITIALIZER;
      c.stage = 3;
      LAYER_TRY(tuttiZeroCreate(&zero_, comm, &parameter, &unit, 1, &c));
    }
    if (kind == EndingLayer::Pipeline) {
      tuttiStages_t stages = TUTTI_STAGES_INITIALIZER;
      stages.forward = [](void*, int, int, const void*, void*) { return tuttiSuccess; };
      stages.backward = [](void*, int, int, const void*, void*, int) { return tuttiSuccess; };
      LAYER_TRY(tuttiScheduleCreate(&schedule_, "1f1b", 2, 1, 2));
      LAYER_TRY(tuttiPipelineCreate(&pipeline_, comm, schedule_, 2, tuttiFloat32, &stages));
    }
    return "";
  }
  tuttiResult_t step() {
    if (pipeline_ != nullptr) return tuttiPipelineStep(pipeline_);
    if (zero_ != nullptr) {
      const tuttiResult_t begun = tuttiZeroBegin(zero_);
      return begun == tuttiSuccess ? tuttiZeroUnshard(zero_, 0) : begun;
    }
    for (const tuttiResult_t result : {tuttiDdpBegin(ddp_), tuttiDdpGradReady(ddp_, 0)}) {
      if (result != tuttiSuccess) return result;
    }
    return tuttiDdpFinish(ddp_);
  }
  std::string destroy() {
    std::string why;
    if (ddp_ != nullptr) why = endsOrNamesRank3(tuttiDdpDestroy(ddp_));
    if (zero_ != nullptr) why = endsOrNamesRank3(tuttiZeroDestroy(zero_));
    if (pipeline_ != nullptr) why = endsOrNamesRank3(tuttiPipelineDestroy(pipeline_));
    if (schedule_ != nullptr) LAYER_TRY(tuttiScheduleDestroy(schedule_));
    return why;
  }

 private:
  std::vector<float> values_ = std::vector<float>(64, 1);
  tuttiDdp_t ddp_ = nullptr;
  tuttiZero_t zero_ = nullptr;
  tuttiSchedule_t schedule_ = nullptr;
  tuttiPipeline_t pipeline_ = nullptr;
};

/// Rank 3 ends the world; rank 1 waits for it along pp, rank 2 along tp, and rank 0 waits for rank 2.
std::string leave(int rank, tuttiComm_t world, EndingLayer kind, bool revokes) {
  tuttiGrid_t grid = nullptr;
  tuttiComm_t along[2] = {};
  tuttiTp_t tp = nullptr;
  LayerUnderWay layer;
  LAYER_TRY(tuttiGridCreate(&grid, world, "tp=2,pp=2", nullptr));
  LAYER_TRY(tuttiGridGroup(grid, "tp", &along[0]));
  LAYER_TRY(tuttiGridGroup(grid, "pp", &along[1]));
  LAYER_TRY(tuttiTpCreate(&tp, along[0], nullptr));
  std::string why = layer.create(kind, along[1]);
  if (!why.empty()) return why;
  (void)tuttiBarrier(world, nullptr);  // all is made; rank 3 may end the world while others leave this
  if (rank == 3 && revokes) RANK_TRY(tuttiCommRevoke(world, 0));
  if (rank == 3 && !revokes) RANK_TRY(tuttiCommAbort(world));
  if (rank == 2) {
    std::vector<float> x(6, 1), y(6);
    const tuttiTensor_t from = matrix(x, 2, 3), to = matrix(y, 2, 3);
    why = namesRank3(tuttiTpRegion(tp, tuttiRegionReduce, 0, &from, 0, nullptr, &to));
  } else {
    why = namesRank3(layer.step());
  }
  if (why.empty()) why = layer.destroy();
  if (why.empty()) why = endsOrNamesRank3(tuttiTpDestroy(tp));
  if (why.empty()) why = endsOrNamesRank3(tuttiGridDestroy(grid));
  if (rank != 3 || revokes) RANK_TRY(tuttiCommAbort(world));
  return why;
}

}  // namespace

TEST_CASE("a rank that aborts or revokes the world leaves nobody waiting in a grid's groups or the layers on them") {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = 0;   // for ever
  config.splitShare = 0;  // the layers' own communicators end all the same
  for (const EndingLayer kind : {EndingLayer::Ddp, EndingLayer::Zero, EndingLayer::Pipeline}) {
    for (const bool revokes : {false, true}) {
      CAPTURE(static_cast<int>(kind), revokes);
      CHECK(onThreads(4, [&](int rank, const tuttiUniqueId& id) -> std::string {
              tuttiComm_t world = nullptr;
              tuttiConfig_t mine = config;
              RANK_TRY(tuttiCommInitRankConfig(&world, 4, id, rank, &mine));
              return leave(rank, world, kind, revokes);
            }) == "");
    }
  }
}
