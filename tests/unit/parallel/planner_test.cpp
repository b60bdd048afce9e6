// The formula sheet beside published tables.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/ep.h"
#include "tutti/parallel/planner.h"
#include "tutti/parallel/pp.h"
#include "tutti/parallel/sp.h"

using namespace tutti::test;

TEST_CASE("memory of four published models, to the last digit") {
  struct Row {
    double hidden, heads, layers, microBatch;
    int pp, chunks;
    double states, tp, sequence;  // GiB: Korthikanti et al., 2022, figure 1
  };
  for (const Row& row : {Row{6144, 64, 48, 4, 1, 1, 45.5625, 59.25, 9.5625},
                         {12288, 96, 96, 1, 8, 3, 45.5625, 66.84375, 12.3515625},
                         {20480, 128, 105, 1, 35, 3, 31.640625, 114.0234375, 23.076171875},
                         {25600, 160, 128, 1, 64, 1, 32.958984375, 131.25, 26.5625}}) {
    tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
    model.layers = row.layers, model.hidden = row.hidden, model.heads = row.heads, model.sequence = 2048;
    tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
    layout.tp = 8, layout.pp = row.pp, layout.chunks = row.chunks, layout.microBatch = row.microBatch;
    tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
    const double gib = 1073741824;
    REQUIRE(tuttiLayoutCost(&model, &layout, &cost) == tuttiSuccess);
    CHECK((cost.values + cost.gradients + cost.optimizer) / gib == Approx(row.states).epsilon(1e-12));
    CHECK(cost.activations / gib == Approx(row.tp).epsilon(1e-12));
    layout.sequenceParallel = 1;
    layout.recompute = tuttiRecomputeSelective;
    REQUIRE(tuttiLayoutCost(&model, &layout, &cost) == tuttiSuccess);
    CHECK(cost.activations / gib == Approx(row.sequence).epsilon(1e-12));
  }
}

TEST_CASE("ZeRO's table, days of training, and what makes no sense") {
  const double expected[] = {120, 31.4, 16.6, 1.875};
  for (int stage = 0; stage <= 3; ++stage) {
    tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
    model.layers = model.hidden = model.heads = model.sequence = 1;
    model.parameters = 7.5e9;
    tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
    layout.dp = 64, layout.zero = stage, layout.gradientBytes = 2;
    tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
    REQUIRE(tuttiLayoutCost(&model, &layout, &cost) == tuttiSuccess);
    CHECK((cost.values + cost.gradients + cost.optimizer) / 1e9 == Approx(expected[stage]).epsilon(3e-3));
    const double traffic[] = {2, 2, 2, 3};
    CHECK(cost.dpBytes / (7.5e9 * 2 * 63 / 64) == Approx(traffic[stage]));
    layout.zero = 4;
    CHECK(tuttiLayoutCost(&model, &layout, &cost) == tuttiInvalidArgument);
  }
  double days = 0;
  REQUIRE(tuttiTrainingDays(175e9, 300e9, 1024, 140e12, 1, &days) == tuttiSuccess);
  CHECK(days == Approx(33.9).margin(0.05));
  REQUIRE(tuttiTrainingDays(1e12, 450e9, 3072, 163e12, 1, &days) == tuttiSuccess);
  CHECK(days == Approx(83.2).margin(0.05));
}

namespace {

/// A pipeline of layers so small that a layer and micro-batch keep 34 bytes or, full, 2.
struct Pipeline {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;

  Pipeline(int p, int chunks, int m) {
    model.layers = p * chunks, model.hidden = model.heads = model.sequence = 1;
    layout.pp = p, layout.chunks = chunks, layout.microBatches = m;
  }
  tuttiLayoutCost_t cost(int recompute) {
    layout.recompute = recompute;
    tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
    REQUIRE(tuttiLayoutCost(&model, &layout, &cost) == tuttiSuccess);
    return cost;
  }
};

/// Messages of the rank that sends most.
double mostMessages(tuttiSchedule_t s, int p) {
  int64_t most = 0;
  for (int rank = 0; rank < p; ++rank) {
    const tuttiAction_t* actions = nullptr;
    int count = 0;
    REQUIRE(tuttiScheduleActions(s, rank, &actions, &count) == tuttiSuccess);
    most = std::max<int64_t>(most, std::count_if(actions, actions + count, [](const tuttiAction_t& a) {
                               return a.kind == tuttiActionSendForward || a.kind == tuttiActionSendBackward;
                             }));
  }
  return static_cast<double>(most);
}

/// "" or which figure is not that of the schedule.
std::string wrongFigure(int p, int chunks, int m) {
  Pipeline planned(p, chunks, m);
  tuttiSchedule_t s = nullptr;
  REQUIRE(tuttiScheduleCreate(&s, chunks > 1 ? "interleaved" : "1f1b", p, chunks, m) == tuttiSuccess);
  std::string wrong;
  for (const int recompute : {tuttiRecomputeNone, tuttiRecomputeFull}) {
    const bool full = recompute == tuttiRecomputeFull;
    tuttiSimulation_t own = TUTTI_SIMULATION_INITIALIZER;
    own.backwardInput = full ? 2 : 1;  // with forward again
    REQUIRE(tuttiScheduleSimulate(s, &own) == tuttiSuccess);
    const tuttiLayoutCost_t cost = planned.cost(recompute);
    const double layer = full ? 2 : 34 + 5;
    if (std::abs(cost.bubble - own.bubbleOverIdeal) > 1e-9) wrong = "bubble";
    if (cost.inFlight != own.peakInFlight) wrong = "in flight";
    if (std::abs(cost.activations - layer * own.peakInFlight) > 1e-9) wrong = "activations";
    if (cost.ppBytes != mostMessages(s, p) * 2) wrong = "messages";
  }
  REQUIRE(tuttiScheduleDestroy(s) == tuttiSuccess);
  return wrong;
}

}  // namespace

TEST_CASE("what the planner says of a pipeline is what its schedule does") {
  for (int p = 1; p <= 8; ++p) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (int m = 1; m <= 33; ++m) {
        CAPTURE(p, chunks, m);
        REQUIRE(wrongFigure(p, chunks, m) == "");
      }
    }
  }
  struct Row {
    int p, chunks, m;
  };
  // Of which a part is simulated: groups of the ranks' number, longer ones, shorter ones.
  for (const Row& row : {Row{8, 1, 301},
                         {8, 2, 304},
                         {5, 3, 203},
                         {12, 4, 299},
                         {2, 4, 101},
                         {3, 4, 100},
                         {4, 7, 110},
                         {16, 2, 17},
                         {16, 2, 500}}) {
    CAPTURE(row.p, row.chunks, row.m);
    CHECK(wrongFigure(row.p, row.chunks, row.m) == "");
  }
}

TEST_CASE("pipelines that are too large to simulate are refused, and enormous steps are not simulated whole") {
  CHECK(Pipeline(8, 2, 1 << 30).cost(tuttiRecomputeNone).bubble == Approx(7.0 / 2 / (1 << 30)));
  Pipeline large(1 << 15, 1, 1 << 16);
  tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
  CHECK(tuttiLayoutCost(&large.model, &large.layout, &cost) == tuttiInvalidArgument);
  CHECK(std::strstr(tuttiParallelGetLastError(), "32768 ranks with 1 chunks each is too large to be simulated"));
}

namespace {

struct Found {
  std::vector<tuttiPlan_t> plans;
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
};

Found search(double layers, double hidden, double heads, int ranks, int batch, double bandwidth,
             std::vector<double>* speeds = nullptr) {
  Found f;
  f.model.layers = layers, f.model.hidden = hidden, f.model.heads = heads, f.model.sequence = 2048;
  f.model.vocabulary = 51200;
  f.machine.ranks = ranks, f.machine.flops = 160e12, f.machine.memory = 80e9;
  f.machine.nodeBandwidth = 250e9, f.machine.bandwidth = bandwidth;
  f.machine.speeds = speeds == nullptr ? nullptr : speeds->data();
  size_t count = 0;
  REQUIRE(tuttiPlanSearch(&f.model, &f.machine, batch, nullptr, 0, &count) == tuttiSuccess);
  f.plans.resize(count);
  REQUIRE(tuttiPlanSearch(&f.model, &f.machine, batch, f.plans.data(), count, &count) == tuttiSuccess);
  return f;
}

}  // namespace

TEST_CASE(
    "the search finds what people found: data parallel for small models, tensor inside nodes and pipelines for large") {
  const tuttiLayout_t small = search(24, 2048, 16, 8, 512, 25e9).plans[0].layout;
  CHECK((small.tp == 1 && small.pp == 1 && small.dp == 8));
  const Found large = search(96, 12288, 96, 1024, 1536, 25e9);
  const tuttiPlan_t& best = large.plans[0];
  CHECK((best.fits && best.layout.tp > 1 && best.layout.tp <= 8 && best.layout.pp > 1));
  CHECK(best.stepMs == Approx(32e3).epsilon(0.35));  // Megatron-LM's README: 32 s per step at 138 TFLOP/s
  CHECK(best.stepMs ==
        Approx(best.computeMs + best.tpMs + best.cpMs + best.epMs + best.ppMs + best.bubbleMs + best.exposedMs));
  bool sorted = true, explained = true;
  for (size_t i = 1; i < large.plans.size(); ++i) {
    const tuttiPlan_t &a = large.plans[i - 1], &b = large.plans[i];
    sorted = sorted && (a.fits > b.fits || (a.fits == b.fits && (!a.fits || a.stepMs <= b.stepMs)));
    explained = explained && std::strlen(b.why) > 0 && (b.fits || std::strstr(b.why, "does not fit"));
  }
  CHECK(sorted);
  CHECK(explained);
}

TEST_CASE(
    "plans hold on their first and last ranks what the schedule holds there, and wait for its bubble and messages") {
  const Found f = search(24, 2048, 16, 24, 33, 25e9);
  const tuttiModelShape_t& m = f.model;
  int uneven = 0;
  for (const tuttiPlan_t& p : f.plans) {
    const tuttiLayout_t& l = p.layout;
    if (l.zero != 0) continue;
    CAPTURE(l.tp, l.cp, l.pp, l.chunks, l.microBatches, l.recompute);
    tuttiSchedule_t s = nullptr;
    REQUIRE(tuttiScheduleCreate(&s, p.schedule, l.pp, l.chunks, l.microBatches) == tuttiSuccess);
    int first = 0, last = 0;
    REQUIRE(tuttiScheduleInFlight(s, 0, &first) == tuttiSuccess);
    REQUIRE(tuttiScheduleInFlight(s, l.pp - 1, &last) == tuttiSuccess);
    tuttiSimulation_t own = TUTTI_SIMULATION_INITIALIZER;
    const double attention = m.sequence / (6 * m.hidden), head = m.vocabulary / (12 * m.layers * m.hidden);
    const double again[] = {0, attention, 1 + attention};
    own.backwardInput += again[l.recompute] / (1 + attention + head);
    REQUIRE(tuttiScheduleSimulate(s, &own) == tuttiSuccess);
    const double each = p.cost.activations / p.cost.inFlight, embedding = m.vocabulary * m.hidden / l.tp * 18;
    const double states = p.cost.values + p.cost.gradients + p.cost.optimizer + embedding;
    const double begin = states + each * first + p.cost.working;
    const double end = states + each * last + std::max(p.cost.working, p.cost.logits);
    REQUIRE(p.memory == Approx(l.pp > 1 ? std::max(begin, end) : end));
    REQUIRE(p.bubbleMs == Approx((p.computeMs + p.tpMs + p.cpMs + p.epMs) * own.bubbleOverIdeal).margin(1e-9));
    const bool near = l.tp * l.cp * l.pp <= 8;
    const double latency = (near ? 5e-3 : 10e-3) * mostMessages(s, l.pp);
    REQUIRE(p.ppMs == Approx(p.cost.ppBytes / (near ? 250e9 : 25e9) * 1e3 + latency));
    uneven += l.chunks > 1 && l.microBatches % l.pp != 0;
    REQUIRE(tuttiScheduleDestroy(s) == tuttiSuccess);
  }
  CHECK(uneven > 100);
}

TEST_CASE("bytes of rings and experts are those that the layers say, and cut what their axes cut") {
  constexpr int64_t kSequence = 12, kHeads = 2, kHeadDim = 4, kWidth = kHeads * kHeadDim;
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = 1, model.hidden = kWidth, model.heads = kHeads, model.sequence = kSequence;
  model.experts = 6, model.choices = 2, model.expertWidth = 16;
  const auto costOf = [&](int cp, int ep) {
    tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
    layout.cp = cp, layout.ep = ep, layout.microBatches = 1, layout.valueBytes = 4;
    tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
    REQUIRE(tuttiLayoutCost(&model, &layout, &cost) == tuttiSuccess);
    return cost;
  };
  const tuttiLayoutCost_t one = costOf(1, 1), ring = costOf(3, 1), experts = costOf(1, 3);
  CHECK((one.cpBytes == 0 && one.epBytes == 0 && one.dpBytes == 0));
  CHECK(ring.activations == Approx(one.activations / 3));
  const double inExperts = 6 * 2 * kWidth * 16, rest = 4 * kWidth * kWidth;
  CHECK(one.values == 4 * (inExperts + rest));
  CHECK(experts.values == 4 * (inExperts / 3 + rest));
  CHECK(experts.dpBytes == Approx(2.0 * 2 / 3 * 4 * rest));  // an expert has one owner
  CHECK(ring.dpBytes == Approx(2.0 * 2 / 3 * 4 * (inExperts + rest)));
  CHECK(onRanks(3, [&](const Rank& r) -> std::string {
          tuttiSpConfig_t c = TUTTI_SP_CONFIG_INITIALIZER;
          c.sequence = kSequence, c.heads = c.kvHeads = kHeads, c.headDim = kHeadDim;
          tuttiSp_t sp = nullptr;
          tuttiTraffic_t t = TUTTI_TRAFFIC_INITIALIZER, there = t, back = t;
          LAYER_TRY(tuttiSpCreate(&sp, nullptr, r.comm, &c));
          LAYER_TRY(tuttiSpTraffic(sp, tuttiFloat32, nullptr, &t));
          RANK_CHECK(static_cast<double>(t.bytes[tuttiCallSend]) == ring.cpBytes);
          LAYER_TRY(tuttiSpDestroy(sp));
          tuttiEpConfig_t e = TUTTI_EP_CONFIG_INITIALIZER;
          e.experts = 6, e.choices = 2;
          tuttiEp_t ep = nullptr;
          std::vector<int32_t> ids;
          for (int i = 0; i < 2 * kSequence; ++i) ids.push_back(i % 6);
          const tuttiTensor_t chosen = tuttiMatrixOf(ids.data(), tuttiInt32, kSequence, 2, 2);
          int64_t received = 0;
          LAYER_TRY(tuttiEpCreate(&ep, r.comm, &e));
          LAYER_TRY(tuttiEpRoute(ep, &chosen, &received, nullptr));
          LAYER_TRY(tuttiEpTraffic(ep, kWidth, tuttiFloat32, 0, nullptr, &there));
          LAYER_TRY(tuttiEpTraffic(ep, kWidth, tuttiFloat32, 1, nullptr, &back));
          const uint64_t sent = 2 * (there.bytes[tuttiCallAllToAllv] + back.bytes[tuttiCallAllToAllv]);
          RANK_CHECK(std::abs(static_cast<double>(sent) - experts.epBytes) < 1e-6);
          LAYER_TRY(tuttiEpDestroy(ep));
          return "";
        }) == "");
}

namespace {

/// A model of eight billion parameters on eight ranks.
std::vector<tuttiPlan_t> plansOf(double sequence, int batch, double memory, double keyBlock) {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = 32, model.hidden = 4096, model.heads = 32, model.kvHeads = 8, model.sequence = sequence;
  model.vocabulary = 128256, model.keyBlock = keyBlock;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  machine.ranks = 8, machine.flops = 400e12, machine.memory = memory, machine.nodeBandwidth = 400e9;
  size_t count = 0;
  REQUIRE(tuttiPlanSearch(&model, &machine, batch, nullptr, 0, &count) == tuttiSuccess);
  std::vector<tuttiPlan_t> plans(count);
  REQUIRE(tuttiPlanSearch(&model, &machine, batch, plans.data(), count, &count) == tuttiSuccess);
  return plans;
}

}  // namespace

TEST_CASE("long contexts are cut over cp where their tokens do not fit, and the others say what fills the memory") {
  constexpr double kLong = 131072, kMemory = 80e9;
  for (const int batch : {1, 8}) {
    for (const double keyBlock : {kLong, 128.0}) {  // all scores of a head at a time; by blocks
      CAPTURE(batch, keyBlock);
      const std::vector<tuttiPlan_t> plans = plansOf(kLong, batch, kMemory, keyBlock);
      CHECK((plans[0].fits && plans[0].layout.cp > 1));
      bool told = true, whole = false;
      for (const tuttiPlan_t& p : plans) {
        const bool alone = p.layout.tp == 1 && p.layout.cp == 1 && p.layout.pp == 1;
        whole = whole || (alone && p.fits);
        told = told && (p.fits || std::strstr(p.why, " GB of 80, "));
        if (alone && keyBlock < kLong && p.layout.zero == 3 && p.layout.recompute == tuttiRecomputeFull) {
          told = told && std::strstr(p.why, "for logits");  // 4 x 131072 x 128256 bytes
        }
      }
      CHECK(told);
      CHECK(!whole);  // 8 ranks with a sequence each would be faster, and do not fit
    }
  }
  CHECK(plansOf(kLong, 8, 0, 0)[0].layout.cp == 1);  // they are, where memory has no bound
  CHECK(plansOf(2048, 8, kMemory, 0)[0].layout.cp == 1);
}

TEST_CASE("a ring cuts activations, logits, and the scores of a hop on both sides; computing again sends again") {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = 2, model.hidden = 64, model.heads = 4, model.sequence = 1024, model.vocabulary = 100;
  const auto costOf = [&](int tp, int cp, int recompute) {
    tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
    layout.tp = tp, layout.cp = cp, layout.recompute = recompute, layout.microBatches = 1;
    tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
    REQUIRE(tuttiLayoutCost(&model, &layout, &cost) == tuttiSuccess);
    return cost;
  };
  const double sbh = 1024 * 64, scores = 2.0 * 1024 * 1024 * 2;
  const tuttiLayoutCost_t one = costOf(1, 1, tuttiRecomputeFull), ring = costOf(1, 4, tuttiRecomputeFull);
  CHECK((one.activations == 2 * 2 * sbh && ring.activations == one.activations / 4));
  CHECK((one.working == 32 * sbh + scores && ring.working == 32 * sbh / 4 + scores / 16));
  CHECK(costOf(1, 4, tuttiRecomputeSelective).working == scores / 16);
  CHECK(costOf(1, 4, tuttiRecomputeNone).working == 0);
  CHECK((one.logits == 4.0 * 1024 * 100 && ring.logits == one.logits / 4));
  CHECK(ring.cpBytes == Approx(costOf(1, 4, tuttiRecomputeNone).cpBytes * 13 / 10));  // 3 more of 10 hops
  CHECK(costOf(2, 1, tuttiRecomputeFull).tpBytes == 1.5 * costOf(2, 1, tuttiRecomputeNone).tpBytes);
  const double full = costOf(1, 4, tuttiRecomputeNone).cpBytes;
  model.kvHeads = 1;
  CHECK(costOf(1, 4, tuttiRecomputeNone).cpBytes == full / 4);
  model.keyBlock = 16;
  CHECK(costOf(1, 4, tuttiRecomputeSelective).working == 2.0 * 256 * 16 * 2);
  model.kvHeads = 5;
  tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
  tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
  CHECK(tuttiLayoutCost(&model, &layout, &cost) == tuttiInvalidArgument);
}

TEST_CASE("experts are spread over ranks where they do not fit") {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = 32, model.hidden = 4096, model.heads = 32, model.sequence = 4096;
  model.experts = 8, model.choices = 2, model.expertWidth = 21504;  // as many as Mixtral 8x7B's three matrices have
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  machine.ranks = 64, machine.flops = 400e12, machine.memory = 80e9;
  machine.nodeBandwidth = 400e9, machine.bandwidth = 50e9;
  size_t count = 0;
  tuttiPlan_t best{};
  REQUIRE(tuttiPlanSearch(&model, &machine, 256, &best, 1, &count) == tuttiSuccess);
  CHECK((best.fits && best.layout.ep > 1 && best.epMs > 0));
}

TEST_CASE("attention that passes by what a causal mask hides takes less of a long sequence's time") {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = 8, model.hidden = 1024, model.heads = 8, model.sequence = 12 * 1024;  // s/6h is 2
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  size_t count = 0;
  tuttiPlan_t all{}, half{};
  REQUIRE(tuttiPlanSearch(&model, &machine, 8, &all, 1, &count) == tuttiSuccess);
  model.visible = 0.5;
  REQUIRE(tuttiPlanSearch(&model, &machine, 8, &half, 1, &count) == tuttiSuccess);
  CHECK(std::abs(half.computeMs / all.computeMs - 2.0 / 3) < 1e-9);
  model.visible = 1.5;
  CHECK(tuttiPlanSearch(&model, &machine, 8, &half, 1, &count) == tuttiInvalidArgument);
}

TEST_CASE("slow ranks get less: uneven shares beat even ones, and machines that make no sense are refused") {
  std::vector<double> speeds(8, 1);
  speeds[7] = 0.5;
  const Found f = search(24, 2048, 16, 8, 512, 25e9, &speeds), even = search(24, 2048, 16, 8, 512, 25e9);
  const tuttiPlan_t& best = f.plans[0];
  tuttiPlan_t byData = best, byStages = best;
  byData.layout.tp = byData.layout.pp = byData.layout.chunks = 1, byData.layout.dp = 8, byData.layout.microBatches = 64;
  byStages.layout.tp = byStages.layout.dp = byStages.layout.chunks = 1, byStages.layout.pp = 8;
  std::vector<int64_t> micro(9), layers(9);
  tuttiMachine_t machine = f.machine;
  machine.speeds = speeds.data();
  REQUIRE(tuttiPlanShares(&f.model, &machine, &byData, 512, micro.data(), nullptr) == tuttiSuccess);
  CHECK((micro[8] == 512 && micro[8] - micro[7] <= 35 && micro[1] >= 68));
  REQUIRE(tuttiPlanShares(&f.model, &machine, &byStages, 512, nullptr, layers.data()) == tuttiSuccess);
  CHECK((layers[8] == 24 && layers[8] - layers[7] <= 2 && layers[1] >= 3));
  CHECK(best.computeMs + best.unevenMs >= 8 / 7.5 * even.plans[0].computeMs);  // all speed there is
  CHECK(best.computeMs + best.unevenMs < 1.25 * even.plans[0].computeMs);      // even shares take twice as long
  size_t count = 0;
  machine.ranks = 0;
  CHECK(tuttiPlanSearch(&f.model, &machine, 512, nullptr, 0, &count) == tuttiInvalidArgument);
  machine = f.machine;
  speeds[3] = 0;
  machine.speeds = speeds.data();
  CHECK(tuttiPlanSearch(&f.model, &machine, 512, nullptr, 0, &count) == tuttiInvalidArgument);
  tuttiMachine_t measured = TUTTI_MACHINE_INITIALIZER;
  CHECK(tuttiMachineMeasure(nullptr, &measured) == tuttiSuccess);
  CHECK((measured.ranks == 1 && measured.flops > 1e6));
}

TEST_CASE("replicas of one node share its adapters out, and what stays in a node does not cross") {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = 24, model.hidden = 1536, model.heads = 24, model.sequence = 2048;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  machine.nodeBandwidth = 40e9, machine.bandwidth = 8e9, machine.nodeLatencyUs = machine.latencyUs = 0;
  struct Row {
    int tp, cp, pp, dp, perNode, adapters;
    double gbps;  // that a replica's gradients get
  };
  const auto row = GENERATE(values<Row>({{8, 1, 1, 4, 8, 0, 8},   // each rank's group has it alone in its node
                                         {4, 1, 1, 4, 8, 0, 16},  // two ranks of a group in a node
                                         {2, 1, 1, 6, 8, 0, 32},
                                         {1, 1, 1, 32, 8, 0, 40},  // eight, and links inside the node carry less
                                         {1, 1, 1, 7, 8, 0, 40},   // one node
                                         {3, 1, 1, 5, 8, 0, 16},   // some nodes have two of a group, others three
                                         {2, 1, 2, 4, 8, 0, 16},   // two stages in a node
                                         {2, 1, 4, 4, 8, 0, 8},
                                         {2, 2, 1, 4, 8, 0, 32},  // a ring's ranks are replicas, too
                                         {4, 4, 1, 2, 8, 0, 16},
                                         {4, 2, 1, 1, 8, 0, 40},
                                         {1, 1, 1, 32, 8, 1, 8},
                                         {1, 1, 1, 32, 8, 3, 24},
                                         {4, 1, 1, 4, 8, 3, 16},
                                         {1, 1, 1, 5, 1, 0, 8}}));
  tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
  layout.tp = row.tp, layout.cp = row.cp, layout.pp = row.pp, layout.dp = row.dp;
  machine.ranks = row.tp * row.cp * row.pp * row.dp, machine.perNode = row.perNode, machine.adapters = row.adapters;
  CAPTURE(row.tp, row.cp, row.pp, row.dp, row.perNode, row.adapters);
  tuttiPlan_t plan;
  REQUIRE(tuttiPlanLayout(&model, &machine, row.dp * row.pp, &layout, &plan) == tuttiSuccess);
  CHECK(plan.dpMs == Approx(plan.cost.dpBytes / (row.gbps * 1e9) * 1e3));
  // Of the steps through all replicas only those between nodes take the network's latency.
  machine.latencyUs = 1000;
  const int replicas = row.cp * row.dp;
  const double before = plan.dpMs;
  REQUIRE(tuttiPlanLayout(&model, &machine, row.dp * row.pp, &layout, &plan) == tuttiSuccess);
  CHECK(plan.dpMs - before <= 2 * (replicas - 1) * 1.0 + 1e-9);
  if (row.tp == 4 && row.cp == 1) CHECK(plan.dpMs - before == Approx(2 * 1.0));  // four replicas in two nodes
  machine.adapters = -1;
  CHECK(tuttiPlanLayout(&model, &machine, row.dp * row.pp, &layout, &plan) == tuttiInvalidArgument);
}

TEST_CASE("ZeRO++ sends a quarter between nodes, keeps a copy in each node, and gains most where networks are slow") {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = 48, model.hidden = 5632, model.heads = 44, model.sequence = 1024;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  machine.ranks = 384, machine.perNode = 16, machine.flops = 40e12, machine.nodeBandwidth = 120e9;
  machine.nodeLatencyUs = machine.latencyUs = 0, machine.adapters = 1;
  tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
  layout.dp = 384, layout.zero = 3, layout.gradientBytes = 2, layout.recompute = tuttiRecomputeFull;
  const auto planOf = [&](int zeroPlus, double bandwidth) {
    machine.zeroPlus = zeroPlus, machine.bandwidth = bandwidth;
    tuttiPlan_t plan;
    REQUIRE(tuttiPlanLayout(&model, &machine, 384, &layout, &plan) == tuttiSuccess);
    return plan;
  };
  const double parameters = 12 * 48 * 5632.0 * 5632;
  const tuttiPlan_t plain = planOf(0, 12e9), plus = planOf(1, 12e9);
  const double inside = parameters * 2 * 15 / 16;
  CHECK(plain.cost.dpBytes == Approx(6 * parameters * 383 / 384));
  CHECK(plus.cost.dpBytes == Approx(1.5 * parameters * 383 / 384 + inside));
  CHECK(plus.dpMs == Approx(1.5 * parameters * 383 / 384 / 12e9 * 1e3 + inside / 120e9 * 1e3));
  CHECK(plus.cost.values - plain.cost.values == Approx(parameters * 2 / 16));
  const double slow = plain.stepMs / plus.stepMs, fast = planOf(0, 96e9).stepMs / planOf(1, 96e9).stepMs;
  CHECK(slow > 1.5);
  CHECK(slow < 4);
  CHECK(fast < slow);
  layout.zero = 2;
  CHECK(planOf(1, 12e9).stepMs == planOf(0, 12e9).stepMs);
}

TEST_CASE("ZeRO 3 falls behind tensor and pipeline parallelism as ranks become many, as far as it was published to") {
  // Narayanan et al., 2021, table 2: 175B parameters on A100, TFLOP/s of a GPU.
  struct Row {
    int ranks, microBatch;
    double zero, parallel;
  };
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = 96, model.hidden = 12288, model.heads = 96, model.sequence = 2048, model.vocabulary = 51200;
  model.keyBlock = 2048;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  machine.gpu = tuttiGpuA100, machine.memory = 80e9, machine.nodeBandwidth = 240e9, machine.bandwidth = 24e9;
  // As DeepSpeed gathered in 2021 (docs/parallel/planner.md).
  machine.overlap = 0, machine.gathers = 3, machine.tensors = 4, machine.memoryCopies = 1, machine.partUs = 10;
  for (const Row& row : {Row{768, 2, 88, 149}, Row{1536, 1, 44, 141}}) {
    machine.ranks = row.ranks;
    tuttiLayout_t zero = TUTTI_LAYOUT_INITIALIZER, parallel = zero;
    zero.dp = row.ranks, zero.zero = 3, zero.microBatch = row.microBatch, zero.recompute = tuttiRecomputeFull;
    parallel.tp = 8, parallel.pp = 12, parallel.dp = row.ranks / 96, parallel.microBatch = 1;
    parallel.recompute = tuttiRecomputeFull;
    tuttiPlan_t alone, both;
    REQUIRE(tuttiPlanLayout(&model, &machine, 1536, &zero, &alone) == tuttiSuccess);
    REQUIRE(tuttiPlanLayout(&model, &machine, 1536, &parallel, &both) == tuttiSuccess);
    INFO(row.ranks);
    CHECK(both.stepMs / alone.stepMs == Approx(row.zero / row.parallel).epsilon(0.11));
  }
}
