// Data parallelism: sums, buckets, bytes, and what it refuses.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/dp.h"

using namespace tutti::test;

namespace {

const std::vector<int64_t> kParameterSizes = {7, 300, 1, 64, 129};
constexpr size_t kUnused = 2;

/// The gradient of micro-batch `leaf` for a parameter.
std::vector<float> gradientOf(int leaf, size_t parameter) {
  return numbers<float>(static_cast<size_t>(kParameterSizes[parameter]),
                        static_cast<uint64_t>(leaf) * 10 + parameter + 1);
}

struct Replica {
  std::vector<std::vector<float>> values;
  std::vector<tuttiParameter_t> parameters;
  Replica() {
    static const char* const names[] = {"a", "b", "c", "d", "e"};
    for (const int64_t size : kParameterSizes) values.emplace_back(static_cast<size_t>(size), 0.5f);
    for (size_t i = 0; i < kParameterSizes.size(); ++i) parameters.push_back({names[i], vector(values[i]), 0});
  }
};

/// A step over leaves [first, first + count) in this rank's order of parameters; gradients are appended to *all.
std::string step(tuttiDdp_t ddp, int first, int count, bool forwards, std::vector<float>* all) {
  for (int leaf = first; leaf < first + count; ++leaf) {
    LAYER_TRY(tuttiDdpBegin(ddp));
    for (size_t i = 0; i < kParameterSizes.size(); ++i) {
      const size_t p = forwards ? i : kParameterSizes.size() - 1 - i;
      if (p == kUnused) continue;
      tuttiTensor_t view;
      LAYER_TRY(tuttiDdpGradient(ddp, p, &view));
      const std::vector<float> g = gradientOf(leaf, p);
      for (size_t e = 0; e < g.size(); ++e) static_cast<float*>(view.data)[e] += g[e];
      LAYER_TRY(tuttiDdpGradReady(ddp, p));
    }
  }
  LAYER_TRY(tuttiDdpFinish(ddp));
  all->clear();
  for (size_t p = 0; p < kParameterSizes.size(); ++p) {
    tuttiTensor_t view;
    LAYER_TRY(tuttiDdpGradient(ddp, p, &view));
    const float* data = static_cast<const float*>(view.data);
    all->insert(all->end(), data, data + kParameterSizes[p]);
  }
  return "";
}

std::vector<float> averageOf(int nLeaves, const std::vector<double>& weights) {
  std::vector<float> all;
  double sum = 0;
  for (const double w : weights) sum += w;
  for (size_t p = 0; p < kParameterSizes.size(); ++p) {
    std::vector<double> average(static_cast<size_t>(kParameterSizes[p]));
    for (int leaf = 0; leaf < nLeaves && p != kUnused; ++leaf) {
      const std::vector<float> g = gradientOf(leaf, p);
      for (size_t e = 0; e < g.size(); ++e) average[e] += weights[static_cast<size_t>(leaf)] * g[e] / sum;
    }
    for (const double x : average) all.push_back(static_cast<float>(x));
  }
  return all;
}

tuttiDdpConfig_t small() {
  tuttiDdpConfig_t c = TUTTI_DDP_CONFIG_INITIALIZER;
  c.bucketBytes = 512;
  c.firstBucketBytes = 100;
  return c;
}

std::vector<float> onOneRank(int nLeaves, int steps) {
  tuttiDdpConfig_t c = small();
  c.numerics = tuttiNumericsLayoutInvariant;
  c.microBatches = nLeaves;
  Replica replica;
  tuttiDdp_t ddp = nullptr;
  std::vector<float> all;
  REQUIRE(tuttiDdpCreate(&ddp, nullptr, replica.parameters.data(), kParameterSizes.size(), &c) == tuttiSuccess);
  for (int s = 0; s < steps; ++s) REQUIRE(step(ddp, 0, nLeaves, false, &all) == "");
  REQUIRE(tuttiDdpDestroy(ddp) == tuttiSuccess);
  return all;
}

}  // namespace

TEST_CASE(
    "gradients are averaged over uneven micro-batches; invariant sums have one rank's bits; bytes are the formula's") {
  constexpr int kLeaves = 7;
  const std::vector<float> average = averageOf(kLeaves, std::vector<double>(kLeaves, 1)), one = onOneRank(kLeaves, 1);
  CHECK(apart(one, average) < 1e-6);
  for (const int nRanks : {2, 3}) {
    for (const bool invariant : {false, true}) {
      for (const bool overlap : {false, true}) {
        CAPTURE(nRanks, invariant, overlap);
        CHECK(onRanks(nRanks, [&](const Rank& r) -> std::string {
                const std::vector<int> counts = nRanks == 2 ? std::vector<int>{5, 2} : std::vector<int>{4, 0, 3};
                tuttiDdpConfig_t c = small();
                c.numerics = invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
                c.overlap = overlap;
                c.microBatches = counts[static_cast<size_t>(r.rank)];
                int first = 0;
                for (int i = 0; i < r.rank; ++i) first += counts[static_cast<size_t>(i)];
                Replica replica;
                if (r.rank != 0) replica.values[1].assign(300, 9.0f);
                tuttiDdp_t ddp = nullptr;
                LAYER_TRY(tuttiDdpCreate(&ddp, r.comm, replica.parameters.data(), kParameterSizes.size(), &c));
                RANK_CHECK(replica.values[1][299] == 0.5f);  // rank 0's
                for (int s = 1; s <= 3; ++s) {               // the first step goes through other buckets than the next
                  std::vector<float> all;
                  const std::string why = step(ddp, first, c.microBatches, r.rank != 1, &all);
                  if (!why.empty()) return why;
                  RANK_CHECK(apart(all, average) < 1e-6);
                  RANK_CHECK(!invariant || all == one);
                  tuttiDdpReport_t report = TUTTI_DDP_REPORT_INITIALIZER, before = report;
                  if (s == 1) continue;
                  LAYER_TRY(tuttiDdpReport(ddp, &before));
                  LAYER_TRY(step(ddp, first, c.microBatches, true, &all).empty() ? tuttiSuccess : tuttiInternalError);
                  LAYER_TRY(tuttiDdpReport(ddp, &report));
                  for (int call = 0; call < tuttiNumCalls; ++call) {
                    report.traffic.calls[call] -= before.traffic.calls[call];
                    report.traffic.bytes[call] -= before.traffic.bytes[call];
                  }
                  report.traffic.wireBytes -= before.traffic.wireBytes;
                  RANK_CHECK(report.nBuckets > 1 && sameTraffic(report.traffic, report.expected));
                }
                LAYER_TRY(tuttiDdpDestroy(ddp));
                return "";
              }) == "");
      }
    }
  }
}

TEST_CASE("weights of samples, and gradients that travel in fewer bytes") {
  struct Row {
    int wire;
    double allowed;
    double bytes;  // of a float's
  };
  for (const Row& row : {Row{tuttiWireExact, 1e-6, 1}, {tuttiWireBf16, 0.01, 0.5}, {tuttiWireInt8, 0.02, 0.3}}) {
    const std::vector<float> average = averageOf(3, {8, 8, 5});
    CAPTURE(row.wire);
    CHECK(onRanks(3, [&](const Rank& r) -> std::string {
            tuttiDdpConfig_t c = TUTTI_DDP_CONFIG_INITIALIZER;
            c.wire = row.wire;
            c.weight = r.rank == 2 ? 5 : 8;
            Replica replica;
            tuttiDdp_t ddp = nullptr;
            LAYER_TRY(tuttiDdpCreate(&ddp, r.comm, replica.parameters.data(), kParameterSizes.size(), &c));
            std::vector<float> all;
            const std::string why = step(ddp, r.rank, 1, false, &all);
            if (!why.empty()) return why;
            RANK_CHECK(apart(all, average) < row.allowed);
            tuttiDdpReport_t report = TUTTI_DDP_REPORT_INITIALIZER;
            LAYER_TRY(tuttiDdpReport(ddp, &report));
            RANK_CHECK(sameTraffic(report.traffic, report.expected));
            const double exact = 4.0 / 3 * 4 * 501;
            // Slices are padded to whole blocks of 256, hence the room.
            RANK_CHECK(report.traffic.wireBytes <= exact * row.bytes * (row.wire == tuttiWireInt8 ? 2 : 1.01));
            LAYER_TRY(tuttiDdpDestroy(ddp));
            return "";
          }) == "");
  }
}

namespace {

/// SGD on half of the squares of w - goal, where the ranks' gradients of element 0 are large and cancel each other:
/// with int8 all others round to nothing beside it.  How far the worst of them is from its goal after the last step.
std::string descend(const Rank& r, const tuttiDdpConfig_t& config, float* worst) {
  constexpr size_t kElements = 200;
  constexpr float kRate = 0.02f, kLarge = 1000;
  std::vector<float> w(kElements, 0), goal(kElements);
  for (size_t i = 0; i < kElements; ++i) goal[i] = 1 + static_cast<float>(i % 7) * 0.25f;
  const tuttiParameter_t parameter = {"w", vector(w), 0};
  tuttiDdp_t ddp = nullptr;
  LAYER_TRY(tuttiDdpCreate(&ddp, r.comm, &parameter, 1, &config));
  for (int s = 0; s < 600; ++s) {
    LAYER_TRY(tuttiDdpBegin(ddp));
    tuttiTensor_t view;
    LAYER_TRY(tuttiDdpGradient(ddp, 0, &view));
    auto* const g = static_cast<float*>(view.data);
    for (size_t i = 1; i < kElements; ++i) g[i] += w[i] - goal[i];
    g[0] += r.rank % 2 == 0 ? kLarge : -kLarge;
    LAYER_TRY(tuttiDdpGradReady(ddp, 0));
    LAYER_TRY(tuttiDdpFinish(ddp));
    LAYER_TRY(tuttiDdpGradient(ddp, 0, &view));
    for (size_t i = 0; i < kElements; ++i) w[i] -= kRate * static_cast<const float*>(view.data)[i];
  }
  LAYER_TRY(tuttiDdpDestroy(ddp));
  *worst = 0;
  for (size_t i = 1; i < kElements; ++i) *worst = std::max(*worst, std::fabs(w[i] - goal[i]));
  return "";
}

}  // namespace

TEST_CASE("with error feedback rounded gradients arrive where exact ones do, and without they stall") {
  struct Row {
    int wire, feedback;
    float least, most;
  };
  for (const Row& row : {Row{tuttiWireExact, 0, 0, 1e-4f},
                         {tuttiWireInt8, 0, 1, 3},
                         {tuttiWireInt8, 1, 0, 0.25f},
                         {tuttiWireBf16, 1, 0, 1e-3f}}) {
    CAPTURE(row.wire, row.feedback);
    for (const int nRanks : {2, 4}) {
      std::vector<float> worst(static_cast<size_t>(nRanks));
      tuttiDdpConfig_t c = TUTTI_DDP_CONFIG_INITIALIZER;
      c.wire = row.wire;
      c.feedback = row.feedback;
      CHECK(onRanks(nRanks, [&](const Rank& r) { return descend(r, c, &worst[static_cast<size_t>(r.rank)]); }) == "");
      for (const float w : worst) CHECK(w == worst[0]);
      CHECK(worst[0] >= row.least);
      CHECK(worst[0] <= row.most);
    }
  }
}

TEST_CASE("a gradient that is no number is not kept by error feedback") {
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          std::vector<float> w(600, 1);
          const tuttiParameter_t parameter = {"w", vector(w), 0};
          tuttiDdpConfig_t c = TUTTI_DDP_CONFIG_INITIALIZER;
          c.wire = tuttiWireBf16;
          c.feedback = 1;
          tuttiDdp_t ddp = nullptr;
          LAYER_TRY(tuttiDdpCreate(&ddp, r.comm, &parameter, 1, &c));
          for (int s = 0; s < 5; ++s) {
            LAYER_TRY(tuttiDdpBegin(ddp));
            tuttiTensor_t view;
            LAYER_TRY(tuttiDdpGradient(ddp, 0, &view));
            auto* g = static_cast<float*>(view.data);
            for (size_t i = 0; i < 600; ++i) g[i] += 1.001f;
            if (r.rank == 1 && s == 2) g[7] = NAN, g[8] = INFINITY;
            LAYER_TRY(tuttiDdpGradReady(ddp, 0));
            LAYER_TRY(tuttiDdpFinish(ddp));
            LAYER_TRY(tuttiDdpGradient(ddp, 0, &view));
            g = static_cast<float*>(view.data);
            RANK_CHECK(s == 2 ? std::isnan(g[7]) && std::isinf(g[8]) : std::fabs(g[7] - 1.001f) < 0.01f);
            for (size_t i = 9; i < 600; ++i) RANK_CHECK(std::fabs(g[i] - 1.001f) < 0.01f);
          }
          LAYER_TRY(tuttiDdpDestroy(ddp));
          return "";
        }) == "");
}

TEST_CASE("ranks that hold different parameters are told which, and wrong order is refused") {
  CHECK(onRanks(2, [](const Rank& r) -> std::string {
          Replica replica;
          if (r.rank == 1) replica.parameters[3].name = "other";
          tuttiDdp_t ddp = nullptr;
          RANK_CHECK(tuttiDdpCreate(&ddp, r.comm, replica.parameters.data(), 5, nullptr) == tuttiInvalidUsage);
          RANK_CHECK(std::strstr(tuttiParallelGetLastError(), "rank 1 holds another parameter 3"));
          RANK_CHECK(tuttiDdpCreate(&ddp, r.comm, replica.parameters.data(), r.rank == 0 ? 3 : 2, nullptr) ==
                     tuttiInvalidUsage);
          replica.parameters[3].name = "d";
          LAYER_TRY(tuttiDdpCreate(&ddp, r.comm, replica.parameters.data(), 5, nullptr));
          RANK_CHECK(tuttiDdpGradReady(ddp, 0) == tuttiInvalidUsage);
          RANK_CHECK(tuttiDdpFinish(ddp) == tuttiInvalidUsage);
          LAYER_TRY(tuttiDdpBegin(ddp));
          RANK_CHECK(tuttiDdpBegin(ddp) == tuttiInvalidUsage);
          LAYER_TRY(tuttiDdpGradReady(ddp, 4));
          RANK_CHECK(tuttiDdpGradReady(ddp, 4) == tuttiInvalidUsage);
          RANK_CHECK(tuttiDdpGradReady(ddp, 5) == tuttiInvalidArgument);
          LAYER_TRY(tuttiDdpFinish(ddp));
          LAYER_TRY(tuttiDdpDestroy(ddp));
          tuttiDdpConfig_t bad = TUTTI_DDP_CONFIG_INITIALIZER;
          bad.wire = tuttiWireBf16;
          bad.numerics = tuttiNumericsLayoutInvariant;
          RANK_CHECK(tuttiDdpCreate(&ddp, r.comm, replica.parameters.data(), 5, &bad) == tuttiInvalidArgument);
          bad = TUTTI_DDP_CONFIG_INITIALIZER;
          bad.feedback = 1;
          RANK_CHECK(tuttiDdpCreate(&ddp, r.comm, replica.parameters.data(), 5, &bad) == tuttiInvalidArgument);
          RANK_CHECK(std::strstr(tuttiParallelGetLastError(), "wire is exact"));
          return "";
        }) == "");
}

TEST_CASE("a rank that ends in the middle of a step, or whose communicator is revoked, leaves nobody waiting") {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = 0;  // for ever
  for (const bool revoked : {false, true}) {
    std::atomic<int> made{0};  // what ends in the middle of making a handle is another matter
    const auto body = [&](int rank, tuttiComm_t comm) -> std::string {
      std::vector<float> values(100, 1);
      const tuttiParameter_t parameter = {"a", vector(values), 0};
      tuttiDdp_t ddp = nullptr;
      LAYER_TRY(tuttiDdpCreate(&ddp, comm, &parameter, 1, nullptr));
      for (++made; made < 3;) std::this_thread::yield();
      if (rank == 1 && revoked) {
        RANK_TRY(tuttiCommRevoke(comm, 0));
      } else {
        LAYER_TRY(tuttiDdpBegin(ddp));
      }
      if (rank != 1) {
        LAYER_TRY(tuttiDdpGradReady(ddp, 0));
        RANK_CHECK(tuttiDdpFinish(ddp) != tuttiSuccess);
      }
      LAYER_TRY(tuttiDdpDestroy(ddp));
      return "";
    };
    CAPTURE(revoked);
    CHECK(onThreads(3, [&](int rank, const tuttiUniqueId& id) {
            tuttiComm_t comm = nullptr;
            tuttiConfig_t mine = config;
            std::string why = failed(tuttiCommInitRankConfig(&comm, 3, id, rank, &mine), "join");
            if (why.empty()) why = body(rank, comm);
            tuttiCommAbort(comm);
            return why;
          }) == "");
  }
}
