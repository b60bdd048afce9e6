// Tokens to experts and back, under even and uneven loads.
#include <catch2/catch.hpp>

#include <functional>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/ep.h"

using namespace tutti::test;

namespace {

constexpr int64_t kFeatures = 3;
constexpr int kExperts = 5, kChoices = 2;

struct Load {
  const char* name;
  std::function<int(int rank, int64_t token, int choice)> expert;
  std::function<int64_t(int rank)> tokens;
  std::vector<int64_t> owners;  // of three ranks
  int64_t capacity;
};

const std::vector<Load> kLoads = {
    {"even",
     [](int r, int64_t t, int c) { return static_cast<int>(r + t + c) % kExperts; },
     [](int) { return 7; },
     {},
     0},
    {"hot expert", [](int, int64_t, int c) { return 2 + c; }, [](int) { return 6; }, {}, 0},
    {"zero expert, ragged",
     [](int, int64_t t, int c) { return static_cast<int>(t % 2) + 3 * c; },
     [](int r) { return int64_t{5} * r; },
     {0, 4, 4, 5},
     0},
    {"capacity",
     [](int, int64_t t, int c) { return static_cast<int>(t % 3 == 0) + c; },
     [](int) { return 9; },
     {0, 1, 1, 5},
     2}};

/// Expert e: y = x * (e + 2).
std::string run(const Load& load, const Rank& r) {
  tuttiEpConfig_t c = TUTTI_EP_CONFIG_INITIALIZER;
  c.experts = kExperts;
  c.choices = kChoices;
  c.owners = load.owners.empty() ? nullptr : load.owners.data();
  c.capacity = load.capacity;
  tuttiEp_t ep = nullptr;
  LAYER_TRY(tuttiEpCreate(&ep, r.comm, &c));
  std::vector<int64_t> owners = load.owners;
  owners.resize(4);
  if (load.owners.empty()) LAYER_TRY(tuttiSplitEven(kExperts, 1, 3, nullptr, owners.data()));
  const int64_t first = owners[static_cast<size_t>(r.rank)], here = owners[static_cast<size_t>(r.rank) + 1] - first;
  const int64_t tokens = load.tokens(r.rank), pairs = tokens * kChoices;
  std::vector<int32_t> ids;
  for (int64_t p = 0; p < pairs; ++p) ids.push_back(load.expert(r.rank, p / kChoices, static_cast<int>(p % kChoices)));
  tuttiTensor_t id = tuttiMatrixOf(ids.data(), tuttiInt32, tokens, kChoices, kChoices);
  int64_t received = -1, dropped = 0;
  std::vector<int64_t> perExpert(static_cast<size_t>(here) + 1);
  LAYER_TRY(tuttiEpRoute(ep, &id, &received, perExpert.data()));
  LAYER_TRY(tuttiEpDropped(ep, &dropped));
  int64_t sum[2] = {received + dropped, pairs};  // what all ranks get is what all ranks have
  RANK_TRY(tuttiAllReduce(sum, sum, 2, tuttiInt64, tuttiSum, r.comm, nullptr));
  RANK_CHECK(sum[0] == sum[1] && (load.capacity > 0) == (dropped > 0));
  const auto seed = static_cast<uint64_t>(r.rank);
  std::vector<double> x = numbers<double>(static_cast<size_t>(tokens * kFeatures), 10 + seed),
                      y(static_cast<size_t>(received * kFeatures));
  std::vector<double> weights = numbers<double>(static_cast<size_t>(pairs), 20 + seed), out(x.size()),
                      kept(static_cast<size_t>(pairs * kFeatures));
  std::vector<double> dout = numbers<double>(x.size(), 30 + seed), dy(y.size()), dx(x.size()), dweights(weights.size());
  const auto mine = [&](std::vector<double>& v) { return matrix(v, tokens, kFeatures); };
  const auto theirs = [&](std::vector<double>& v) { return matrix(v, received, kFeatures); };
  const tuttiTensor_t tx = mine(x), ty = theirs(y), tw = vector(weights), to = mine(out);
  const tuttiTensor_t td = mine(dout), tdy = theirs(dy), tdx = mine(dx), tdw = vector(dweights);
  tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER, expected = TUTTI_TRAFFIC_INITIALIZER;
  LAYER_TRY(tuttiEpDispatch(ep, &tx, &ty));
  LAYER_TRY(tuttiEpTraffic(ep, kFeatures, tuttiFloat64, 0, &counted, &expected));
  RANK_CHECK(sameTraffic(counted, expected));
  const auto experts = [&](std::vector<double>& rows) {
    size_t at = 0;
    for (int64_t e = 0; e < here; ++e) {
      for (int64_t i = 0; i < perExpert[static_cast<size_t>(e)] * kFeatures; ++i)
        rows[at++] *= static_cast<double>(first + e + 2);
    }
    return at == rows.size();
  };
  RANK_CHECK(experts(y));
  LAYER_TRY(tuttiEpCombine(ep, &ty, &tw, &to, kept.data()));
  LAYER_TRY(tuttiEpCombineBackward(ep, &td, &tw, kept.data(), &tdy, &tdw));
  RANK_CHECK(experts(dy));
  LAYER_TRY(tuttiEpDispatchBackward(ep, &tdy, &tdx));
  std::vector<int64_t> taken(kExperts);
  std::vector<double> wantOut(x.size()), wantDx(x.size()), wantDw(weights.size());
  for (int64_t p = 0; p < pairs; ++p) {
    const auto pair = static_cast<size_t>(p);
    if (load.capacity > 0 && taken[static_cast<size_t>(ids[pair])]++ >= load.capacity) continue;
    for (size_t i = 0; i < kFeatures; ++i) {
      const size_t at = static_cast<size_t>(p / kChoices) * kFeatures + i;
      const double factor = ids[pair] + 2;
      wantOut[at] += weights[pair] * (x[at] * factor);
      wantDx[at] += weights[pair] * dout[at] * factor;
      wantDw[pair] += dout[at] * (x[at] * factor);
    }
  }
  RANK_CHECK(out == wantOut && dx == wantDx && apart(dweights, wantDw) < 1e-15);
  if (!ids.empty()) ids[0] = kExperts;
  if (r.nRanks == 1) RANK_CHECK(tuttiEpRoute(ep, &id, &received, nullptr) == tuttiInvalidArgument);
  LAYER_TRY(tuttiEpDestroy(ep));
  return "";
}

}  // namespace

TEST_CASE("tokens go to their experts and back under every load, with gradients") {
  for (const Load& load : kLoads) {
    CAPTURE(load.name);
    CHECK(onRanks(3, [&](const Rank& r) { return run(load, r); }) == "");
  }
  tuttiEp_t ep = nullptr;
  tuttiEpConfig_t c = TUTTI_EP_CONFIG_INITIALIZER;
  c.experts = 2;
  c.choices = 3;
  CHECK(tuttiEpCreate(&ep, nullptr, &c) == tuttiInvalidArgument);
}

TEST_CASE("the loss of uneven loads is least where they are even, and has the slope that it says") {
  constexpr int kRanks = 3;
  constexpr double kCoefficient = 0.5, kStep = 1e-3;
  CHECK(onRanks(kRanks, [&](const Rank& r) -> std::string {
          tuttiEpConfig_t c = TUTTI_EP_CONFIG_INITIALIZER;
          c.experts = kExperts;
          tuttiEp_t ep = nullptr;
          LAYER_TRY(tuttiEpCreate(&ep, r.comm, &c));
          const int64_t tokens = kExperts * (r.rank + 1);
          const size_t count = static_cast<size_t>(tokens * kExperts);
          std::vector<int32_t> ids;
          std::vector<double> even(count, 1.0 / kExperts), p = numbers<double>(count, 7), slopes(count, 3);
          double loss = 0, other = 0;
          int64_t received = 0;
          const tuttiTensor_t same = matrix(even, tokens, kExperts), any = matrix(p, tokens, kExperts);
          const tuttiTensor_t d = matrix(slopes, tokens, kExperts);
          RANK_CHECK(tuttiEpBalanceLoss(ep, &same, 1, 0, &loss, nullptr) == tuttiInvalidArgument);
          for (int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<int32_t>(t % kExperts));
          const tuttiTensor_t id = tuttiMatrixOf(ids.data(), tuttiInt32, tokens, 1, 1);
          LAYER_TRY(tuttiEpRoute(ep, &id, &received, nullptr));
          for (const int all : {0, 1}) {
            LAYER_TRY(tuttiEpBalanceLoss(ep, &same, kCoefficient, all, &loss, nullptr));
            RANK_CHECK(std::abs(loss - kCoefficient) < 1e-12);
          }
          ids.assign(ids.size(), r.rank);  // each rank's tokens all ask for one expert
          LAYER_TRY(tuttiEpRoute(ep, &id, &received, nullptr));
          for (double& x : even) x = 0;
          for (size_t t = 0; t < static_cast<size_t>(tokens); ++t) even[t * kExperts + static_cast<size_t>(r.rank)] = 1;
          LAYER_TRY(tuttiEpBalanceLoss(ep, &same, kCoefficient, 0, &loss, nullptr));
          RANK_CHECK(std::abs(loss - kCoefficient * kExperts) < 1e-12);
          LAYER_TRY(tuttiEpBalanceLoss(ep, &same, kCoefficient, 1, &loss, nullptr));  // shares of 1/6, 2/6 and 3/6
          RANK_CHECK(std::abs(loss - kCoefficient * kExperts * 14 / 36) < 1e-12);
          LAYER_TRY(tuttiEpBalanceLoss(ep, &any, kCoefficient, 1, &loss, &d));
          for (const size_t i : {size_t{0}, size_t{1}, size_t{2}, count - 1}) {  // rank by rank: all take part in each
            for (int moved = 0; moved < kRanks; ++moved) {
              if (moved == r.rank) p[i] += kStep;
              LAYER_TRY(tuttiEpBalanceLoss(ep, &any, kCoefficient, 1, &other, nullptr));
              if (moved != r.rank) continue;
              RANK_CHECK(std::abs((other - loss) / kStep - (slopes[i] - 3)) < 1e-9);
              p[i] -= kStep;
            }
          }
          LAYER_TRY(tuttiEpDestroy(ep));
          return "";
        }) == "");
}
