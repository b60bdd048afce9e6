// ZeRO stages beside plain training on one rank: values, bytes held, bytes moved.
#include <catch2/catch.hpp>

#include <cstring>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/zero.h"

using namespace tutti::test;

namespace {

const std::vector<int64_t> kShardedSizes = {7, 100, 1, 64, 29};
const int kUnits[] = {0, 0, 1, 1, 2};
constexpr int kMicroBatches = 6;

/// "Backward" of micro-batch `leaf`: depends on the values, so that errors in them spread.
std::vector<float> gradientOf(int leaf, size_t p, const float* value) {
  std::vector<float> g =
      numbers<float>(static_cast<size_t>(kShardedSizes[p]), static_cast<uint64_t>(leaf) * 10 + p + 1);
  for (size_t e = 0; e < g.size(); ++e) g[e] += 0.3f * value[e];
  return g;
}

struct ShardedModel {
  std::vector<std::vector<float>> values;
  std::vector<tuttiParameter_t> parameters;
  explicit ShardedModel(bool other = false) {
    static const char* const names[] = {"a", "b", "c", "d", "e"};
    for (size_t p = 0; p < kShardedSizes.size(); ++p) {
      values.push_back(numbers<float>(static_cast<size_t>(kShardedSizes[p]), other ? 99 : 50 + p));
    }
    for (size_t p = 0; p < kShardedSizes.size(); ++p)
      parameters.push_back({names[p], vector(values[p]), p == 2 ? TUTTI_PARAMETER_NO_DECAY : 0});
  }
};

std::string pass(tuttiZero_t zero, int leaf, bool backward) {
  for (int i = 0; i < 3; ++i) {
    const int unit = backward ? 2 - i : i;
    LAYER_TRY(tuttiZeroUnshard(zero, unit));
    for (size_t p = 0; p < kShardedSizes.size() && backward; ++p) {
      if (kUnits[p] != unit) continue;
      tuttiTensor_t value, gradient;
      LAYER_TRY(tuttiZeroValue(zero, p, &value));
      LAYER_TRY(tuttiZeroGradient(zero, p, &gradient));
      const std::vector<float> g = gradientOf(leaf, p, static_cast<const float*>(value.data));
      for (size_t e = 0; e < g.size(); ++e) static_cast<float*>(gradient.data)[e] += g[e];
      LAYER_TRY(tuttiZeroGradReady(zero, p));
    }
    LAYER_TRY(tuttiZeroReshard(zero, unit, !backward));
  }
  return "";
}

std::string step(tuttiZero_t zero, int first, int count, double* norm) {
  for (int leaf = first; leaf < first + count; ++leaf) {
    LAYER_TRY(tuttiZeroBegin(zero));
    for (const bool backward : {false, true}) {
      if (const std::string why = pass(zero, leaf, backward); !why.empty()) return why;
    }
  }
  LAYER_TRY(tuttiZeroStep(zero, norm));
  return "";
}

/// All values, put together from what ranks own.
std::string gather(tuttiZero_t zero, tuttiComm_t comm, std::vector<float>* all) {
  all->clear();
  for (size_t p = 0; p < kShardedSizes.size(); ++p) {
    int64_t begin = 0, end = 0;
    tuttiTensor_t mine;
    LAYER_TRY(tuttiZeroOwned(zero, p, &begin, &end, &mine));
    std::vector<float> whole(static_cast<size_t>(kShardedSizes[p]));
    if (begin < end) std::copy_n(static_cast<const float*>(mine.data), end - begin, whole.begin() + begin);
    if (comm != nullptr) {
      RANK_TRY(tuttiAllReduce(whole.data(), whole.data(), whole.size(), tuttiFloat32, tuttiSum, comm, nullptr));
    }
    all->insert(all->end(), whole.begin(), whole.end());
  }
  return "";
}

tuttiZeroConfig_t configOf(int stage, bool invariant, int kind) {
  tuttiZeroConfig_t c = TUTTI_ZERO_CONFIG_INITIALIZER;
  c.stage = stage;
  c.numerics = invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  c.optimizer.kind = kind;
  c.optimizer.learningRate = 0.05;
  c.clip = 5;
  return c;
}

struct Result {
  std::vector<float> values;
  double norm = 0;
};

Result onOneRank(int kind) {
  tuttiZeroConfig_t c = configOf(0, true, kind);
  c.microBatches = kMicroBatches;
  ShardedModel model;
  tuttiZero_t zero = nullptr;
  Result result;
  REQUIRE(tuttiZeroCreate(&zero, nullptr, model.parameters.data(), kUnits, kShardedSizes.size(), &c) == tuttiSuccess);
  for (int s = 0; s < 3; ++s) REQUIRE(step(zero, 0, kMicroBatches, &result.norm) == "");
  REQUIRE(gather(zero, nullptr, &result.values) == "");
  REQUIRE(tuttiZeroDestroy(zero) == tuttiSuccess);
  return result;
}

std::string checkReport(tuttiZero_t zero, int first, int count) {
  tuttiZeroReport_t before = TUTTI_ZERO_REPORT_INITIALIZER, after = before;
  LAYER_TRY(tuttiZeroReport(zero, &before));
  if (const std::string why = step(zero, first, count, nullptr); !why.empty()) return why;
  LAYER_TRY(tuttiZeroReport(zero, &after));
  for (int call = 0; call < tuttiNumCalls; ++call) {
    after.traffic.calls[call] -= before.traffic.calls[call];
    after.traffic.bytes[call] -= before.traffic.bytes[call];
  }
  after.traffic.wireBytes -= before.traffic.wireBytes;
  RANK_CHECK(sameTraffic(after.traffic, after.expected));
  RANK_CHECK(after.bytesNow == after.bytesExpected);
  RANK_CHECK(after.bytesPeak <= after.bytesPeakExpected);
  return "";
}

}  // namespace

TEST_CASE("all stages train as one rank does, in memory and traffic that the formulas say") {
  for (const int kind : {tuttiAdamW, tuttiMomentum, tuttiSgd}) {
    const Result one = onOneRank(kind);
    for (const int nRanks : {1, 2, 3}) {
      for (int stage = 0; stage <= 3; ++stage) {
        if (kind != tuttiAdamW && (nRanks != 3 || stage % 2 == 0)) continue;
        for (const int variant : {0, 1, 2, 3}) {
          const bool invariant = variant & 1,
                     plain = variant & 2;  // plain: no threads, no prefetch, kept after forward
          CAPTURE(kind, nRanks, stage, invariant, plain);
          CHECK(onRanks(nRanks, [&](const Rank& r) -> std::string {
                  tuttiZeroConfig_t c = configOf(stage, invariant, kind);
                  c.microBatches = kMicroBatches / nRanks;
                  if (plain) c.overlap = c.prefetch = c.reshardAfterForward = 0;
                  ShardedModel model(r.rank != 0);
                  tuttiZero_t zero = nullptr;
                  LAYER_TRY(tuttiZeroCreate(&zero, r.comm, model.parameters.data(), kUnits, kShardedSizes.size(), &c));
                  Result result;
                  const int first = r.rank * c.microBatches;
                  for (int s = 0; s < 3; ++s) {
                    if (const std::string why = step(zero, first, c.microBatches, &result.norm); !why.empty())
                      return why;
                  }
                  if (const std::string why = gather(zero, r.comm, &result.values); !why.empty()) return why;
                  RANK_CHECK(!invariant || (result.values == one.values && result.norm == one.norm));
                  RANK_CHECK(apart(result.values, one.values) < 1e-5);
                  if (const std::string why = checkReport(zero, first, c.microBatches); !why.empty()) return why;
                  LAYER_TRY(tuttiZeroDestroy(zero));
                  return "";
                }) == "");
        }
      }
    }
  }
}

TEST_CASE("ranks may have different numbers of micro-batches where sums wait for the step") {
  const Result one = onOneRank(tuttiAdamW);
  for (const int stage : {0, 1, 2}) {
    CHECK(onRanks(2, [&](const Rank& r) -> std::string {
            tuttiZeroConfig_t c = configOf(stage, true, tuttiAdamW);
            c.microBatches = r.rank == 0 ? 5 : 1;
            ShardedModel model;
            tuttiZero_t zero = nullptr;
            const tuttiResult_t made = tuttiZeroCreate(&zero, r.comm, model.parameters.data(), kUnits, 5, &c);
            if (stage == 2) {
              RANK_CHECK(made == tuttiInvalidArgument);
              return "";
            }
            LAYER_TRY(made);
            Result result;
            for (int s = 0; s < 3; ++s) {
              if (const std::string why = step(zero, r.rank * 5, c.microBatches, &result.norm); !why.empty())
                return why;
            }
            if (const std::string why = gather(zero, r.comm, &result.values); !why.empty()) return why;
            RANK_CHECK(result.values == one.values && result.norm == one.norm);
            LAYER_TRY(tuttiZeroDestroy(zero));
            return "";
          }) == "");
  }
}

TEST_CASE("hybrid sharding sums over replicas too") {
  const Result one = onOneRank(tuttiAdamW);
  for (const int stage : {0, 1, 3}) {
    CAPTURE(stage);
    CHECK(onRanks(6, [&](const Rank& r) -> std::string {
            tuttiComm_t shard = nullptr, replicas = nullptr;
            RANK_TRY(tuttiCommSplit(r.comm, r.rank / 2, r.rank, &shard, nullptr));
            RANK_TRY(tuttiCommSplit(r.comm, r.rank % 2, r.rank, &replicas, nullptr));
            tuttiZeroConfig_t c = configOf(stage, false, tuttiAdamW);
            c.replicas = replicas;
            ShardedModel model(r.rank != 0);
            tuttiZero_t zero = nullptr;
            LAYER_TRY(tuttiZeroCreate(&zero, shard, model.parameters.data(), kUnits, kShardedSizes.size(), &c));
            Result result;
            for (int s = 0; s < 3; ++s) {
              if (const std::string why = step(zero, r.rank, 1, &result.norm); !why.empty()) return why;
            }
            if (const std::string why = gather(zero, shard, &result.values); !why.empty()) return why;
            RANK_CHECK(apart(result.values, one.values) < 1e-5);
            RANK_CHECK(std::abs(result.norm - one.norm) < 1e-5 * one.norm);
            if (const std::string why = checkReport(zero, r.rank, 1); !why.empty()) return why;
            LAYER_TRY(tuttiZeroDestroy(zero));
            RANK_TRY(tuttiCommDestroy(shard));
            RANK_TRY(tuttiCommDestroy(replicas));
            return "";
          }) == "");
  }
}

TEST_CASE("values in bfloat16 with float32 master copies in the shards") {
  CHECK(onRanks(2, [&](const Rank& r) -> std::string {
          for (const int stage : {0, 1, 3}) {
            tuttiZeroConfig_t c = configOf(stage, false, tuttiSgd);
            c.values = tuttiBfloat16;
            c.optimizer.weightDecay = 0;
            c.clip = 0;
            ShardedModel model;
            tuttiZero_t zero = nullptr;
            LAYER_TRY(tuttiZeroCreate(&zero, r.comm, model.parameters.data(), kUnits, kShardedSizes.size(), &c));
            LAYER_TRY(tuttiZeroBegin(zero));
            for (size_t p = 0; p < kShardedSizes.size(); ++p) {
              tuttiTensor_t gradient;
              LAYER_TRY(tuttiZeroGradient(zero, p, &gradient));
              std::fill_n(static_cast<float*>(gradient.data), kShardedSizes[p], 1e-4f);  // less than bfloat16 can add
              LAYER_TRY(tuttiZeroGradReady(zero, p));
            }
            LAYER_TRY(tuttiZeroStep(zero, nullptr));
            std::vector<float> master;
            if (const std::string why = gather(zero, r.comm, &master); !why.empty()) return why;
            for (int unit = 0; unit < 3; ++unit) LAYER_TRY(tuttiZeroUnshard(zero, unit));
            size_t at = 0;
            for (size_t p = 0; p < kShardedSizes.size(); ++p) {
              tuttiTensor_t value;
              LAYER_TRY(tuttiZeroValue(zero, p, &value));
              RANK_CHECK(value.dtype == tuttiBfloat16);
              for (size_t e = 0; e < model.values[p].size(); ++e, ++at) {
                RANK_CHECK(std::abs(master[at] - (model.values[p][e] - 5e-6f)) < 1e-7f);
                uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(value.data)[e]) << 16;
                float rounded;
                std::memcpy(&rounded, &bits, 4);
                RANK_CHECK(std::abs(rounded - master[at]) <= std::abs(master[at]) / 256);
              }
            }
            tuttiZeroReport_t report = TUTTI_ZERO_REPORT_INITIALIZER;
            LAYER_TRY(tuttiZeroReport(zero, &report));
            if (stage != 3) RANK_CHECK(report.bytesNow == report.bytesExpected);
            LAYER_TRY(tuttiZeroDestroy(zero));
          }
          return "";
        }) == "");
}

TEST_CASE("calls in the wrong order are refused, and what is not there is not given") {
  ShardedModel model;
  tuttiZero_t zero = nullptr;
  tuttiZeroConfig_t c = configOf(3, false, tuttiAdamW);
  const int gap[] = {0, 0, 2, 2, 3};
  CHECK(tuttiZeroCreate(&zero, nullptr, model.parameters.data(), gap, 5, &c) == tuttiInvalidArgument);
  c.stage = 4;
  CHECK(tuttiZeroCreate(&zero, nullptr, model.parameters.data(), kUnits, 5, &c) == tuttiInvalidArgument);
  c.stage = 3;
  REQUIRE(tuttiZeroCreate(&zero, nullptr, model.parameters.data(), kUnits, 5, &c) == tuttiSuccess);
  tuttiTensor_t view;
  CHECK(tuttiZeroValue(zero, 0, &view) == tuttiInvalidUsage);
  CHECK(tuttiZeroGradient(zero, 0, &view) == tuttiInvalidUsage);
  CHECK(tuttiZeroStep(zero, nullptr) == tuttiInvalidUsage);
  REQUIRE(tuttiZeroBegin(zero) == tuttiSuccess);
  REQUIRE(tuttiZeroGradReady(zero, 4) == tuttiSuccess);
  CHECK(tuttiZeroGradReady(zero, 4) == tuttiInvalidUsage);
  CHECK(tuttiZeroStep(zero, nullptr) == tuttiInvalidUsage);
  CHECK(std::strstr(tuttiParallelGetLastError(), "parameter 0 has no gradient"));
  CHECK(tuttiZeroDestroy(zero) == tuttiSuccess);
}
