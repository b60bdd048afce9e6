// The formula sheet beside published tables.
#include <catch2/catch.hpp>

#include <string>

#include "tutti/parallel/planner.h"

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
