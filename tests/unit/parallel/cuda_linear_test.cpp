// Linear layers, GELU and layer norm on CUDA devices beside the host's.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_support.hpp"
#include "tutti/parallel/kernels.h"
#include "tutti/parallel/tp.h"

using namespace tutti;
using namespace tutti::test;

namespace {

struct LinearWay {
  bool column, invariant, sequence, whole;
  int tiles;
};
constexpr int64_t kTokens = 13, kInputs = 22, kOutputs = 19;

/// One pass forward and backward of a layer; all results of this rank, one after another.
std::string runLinear(const LinearWay& way, const Rank& r, Place& place, std::vector<float>* results) {
  tuttiTpConfig_t c = TUTTI_TP_CONFIG_INITIALIZER;
  c.numerics = way.invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  c.sequenceParallel = way.sequence;
  c.leaves = 5;
  c.tiles = way.tiles;
  c.device = place.onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
  tuttiTp_t tp = nullptr;
  LAYER_TRY(tuttiTpCreate(&tp, r.comm, &c));
  tuttiLinearConfig_t l = TUTTI_LINEAR_CONFIG_INITIALIZER;
  l.inputs = kInputs;
  l.outputs = kOutputs;
  l.whole = way.whole;
  tuttiLinear_t linear = nullptr;
  LAYER_TRY((way.column ? tuttiColumnLinearCreate : tuttiRowLinearCreate)(&linear, tp, &l));
  std::vector<int64_t> cuts(static_cast<size_t>(r.nRanks) + 1), tokens(cuts);
  LAYER_TRY(tuttiLinearCuts(linear, cuts.data()));
  LAYER_TRY(tuttiTpSplit(tp, kTokens, 1, tokens.data()));
  const size_t me = static_cast<size_t>(r.rank);
  const int64_t b = cuts[me], e = cuts[me + 1], t0 = way.sequence ? tokens[me] : 0,
                t1 = way.sequence ? tokens[me + 1] : kTokens;
  const bool column = way.column, cutIn = !column && !way.whole, cutOut = column && !way.whole;
  const auto activation = [&](int64_t width, uint64_t seed, bool cut, bool bySequence) {
    return cut ? heldPart(place, kTokens, width, seed, false, b, e)
               : heldPart(place, kTokens, width, seed, true, bySequence ? t0 : 0, bySequence ? t1 : kTokens);
  };
  const tuttiTensor_t x = activation(kInputs, 1, cutIn, column), dy = activation(kOutputs, 2, cutOut, !column);
  const tuttiTensor_t w = heldPart(place, kOutputs, kInputs, 3, column, b, e);
  tuttiTensor_t bias = place.hold(numbers<float>(static_cast<size_t>(kOutputs), 4));
  if (column) {
    bias.shape[0] = e - b;
    bias.data = static_cast<float*>(bias.data) + b;
  }
  const tuttiTensor_t y = held(place, dy.shape[0], dy.shape[1], 0), dx = held(place, x.shape[0], x.shape[1], 0);
  const tuttiTensor_t dw = held(place, w.shape[0], w.shape[1], 7);
  tuttiTensor_t dbias = place.hold(numbers<float>(static_cast<size_t>(bias.shape[0]), 8));
  LAYER_TRY(tuttiLinearForward(linear, kTokens, &x, &w, &bias, &y));
  LAYER_TRY(tuttiLinearBackward(linear, kTokens, &x, &w, &dy, &dx, &dw, &dbias));
  for (const tuttiTensor_t& t : {y, dx, dw, dbias}) {
    const std::vector<float> part = place.read(t);
    results->insert(results->end(), part.begin(), part.end());
  }
  LAYER_TRY(tuttiLinearDestroy(linear));
  LAYER_TRY(tuttiTpDestroy(tp));
  return "";
}

}  // namespace

TEST_CASE("linear layers on CUDA devices are those of the host, layout-invariant bit for bit") {
  const Variable driver = eachDriver("devices=2;delay=50");
  const int devices = hasDevices(2) ? 2 : 1;
  for (const LinearWay& way : {LinearWay{true, false, false, false, 1}, LinearWay{true, true, false, true, 1},
                               LinearWay{true, true, true, false, 1}, LinearWay{true, false, true, false, 1},
                               LinearWay{false, false, false, true, 3}, LinearWay{false, true, false, false, 1},
                               LinearWay{false, true, true, false, 1}, LinearWay{false, false, true, false, 1}}) {
    for (const int nRanks : {1, 3}) {
      CAPTURE(way.column, way.invariant, way.sequence, way.whole, nRanks);
      std::vector<std::vector<float>> results[2];
      for (const bool onHost : {true, false}) {
        auto& of = results[onHost];
        of.resize(static_cast<size_t>(nRanks));
        CHECK(onThreads(nRanks, [&](int rank, const tuttiUniqueId& id) -> std::string {
                Place place(onHost ? Place::kHost : rank % devices);
                auto& mine = of[static_cast<size_t>(rank)];
                if (nRanks == 1) return runLinear(way, {0, 1, nullptr}, place, &mine);
                return asRank(rank, nRanks, id, place.config(),
                              [&](const Rank& r) { return runLinear(way, r, place, &mine); });
              }) == "");
      }
      for (size_t r = 0; r < results[0].size(); ++r) {
        CHECK(apart(results[0][r], results[1][r]) < 2e-6);
        if (way.invariant) CHECK(results[0][r] == results[1][r]);
      }
    }
  }
  CHECK(driverComplaints() == "");
}

TEST_CASE("GELU and layer norm on CUDA are those of the host") {
  resetDriver("devices=1");
  {
    std::vector<float> results[2];
    const int64_t rowCuts[] = {0, 3, 3, 11};
    for (const int ordinal : {Place::kHost, 0}) {
      Place place(ordinal);
      const tuttiTensor_t x = held(place, 11, 37, 1), dy = held(place, 11, 37, 2), y = held(place, 11, 37, 0);
      const tuttiTensor_t gamma = place.hold(numbers<float>(37, 3)), beta = place.hold(numbers<float>(37, 4));
      const tuttiTensor_t sums = held(place, 3, 37, 5), moreSums = held(place, 3, 37, 6);
      std::vector<float>& all = results[ordinal + 1];
      const auto take = [&](const tuttiTensor_t& t) {
        const std::vector<float> part = place.read(t);
        all.insert(all.end(), part.begin(), part.end());
      };
      REQUIRE(tuttiGelu(&x, &y) == tuttiSuccess);
      take(y);
      REQUIRE(tuttiGeluBackward(&x, &dy, &y) == tuttiSuccess);
      take(y);
      REQUIRE(tuttiLayerNorm(&x, &gamma, &beta, &y) == tuttiSuccess);
      take(y);
      REQUIRE(tuttiLayerNormBackward(&x, &gamma, &dy, rowCuts, 3, &dy, &sums, &moreSums) == tuttiSuccess);  // in place
      for (const tuttiTensor_t& t : {dy, sums, moreSums}) take(t);
    }
    // A real device adds up a row in another order, and has a hyperbolic tangent of its own.
    CHECK(apart(results[1], results[0]) < 1e-5);
    if (ofFake<void (*)(const char*)>("fakeCudaReset") != nullptr) CHECK(results[1] == results[0]);
  }
  CHECK(driverComplaints() == "");
}
