// What tests of data parallelism and sharding on CUDA have each rank do: a few parameters, and gradients for them.
#pragma once

#include "tests/unit/parallel/cuda_support.hpp"
#include "tutti/parallel/zero.h"

namespace tutti::test {

inline const std::vector<int64_t> kCudaSizes = {7, 300, 1, 1500, 29};
inline constexpr int kCudaUnits[] = {0, 0, 1, 1, 2};
inline constexpr int kCudaLeaves = 6, kCudaSteps = 3;

/// Values, and what makes the gradients of some micro-batches, where the rank computes.
struct CudaProgram {
  CudaProgram(Place& place, int first, int count) {
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
inline std::string ddpStep(tuttiDdp_t ddp, const CudaProgram& program) {
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

inline tuttiDdpConfig_t ddpConfig(bool invariant, int wire, bool overlap, int microBatches) {
  tuttiDdpConfig_t c = TUTTI_DDP_CONFIG_INITIALIZER;
  c.bucketBytes = 1024;
  c.firstBucketBytes = 100;
  c.numerics = invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  c.wire = wire;
  c.overlap = overlap;
  c.microBatches = microBatches;
  return c;
}

inline std::string zeroPass(tuttiZero_t zero, const std::vector<tuttiTensor_t>& leaf, bool backward) {
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
inline std::string zeroStep(tuttiZero_t zero, const CudaProgram& program, double* norm) {
  for (const auto& leaf : program.gradients) {
    LAYER_TRY(tuttiZeroBegin(zero));
    for (const bool backward : {false, true}) {
      if (const std::string why = zeroPass(zero, leaf, backward); !why.empty()) return why;
    }
  }
  LAYER_TRY(tuttiZeroStep(zero, norm));
  return "";
}

inline tuttiZeroConfig_t zeroConfig(int stage, bool invariant, int kind, double clip = 5) {
  tuttiZeroConfig_t c = TUTTI_ZERO_CONFIG_INITIALIZER;
  c.stage = stage;
  c.numerics = invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  c.optimizer.kind = kind;
  c.optimizer.learningRate = 0.05;
  c.clip = clip;
  return c;
}
inline std::vector<std::vector<float>> zeroRoom() {
  std::vector<std::vector<float>> room;
  for (const int64_t n : kCudaSizes) room.emplace_back(static_cast<size_t>(n));
  return room;
}

}  // namespace tutti::test
