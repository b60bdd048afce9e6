// tutti-plan: the best layouts for a model on a machine; published tables from the same formulas.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tools/plan/search_view.hpp"
#include "tools/version.hpp"
#include "tutti/parallel/planner.h"
#include "tutti/parallel/pp.h"

namespace {

constexpr double kGiB = 1073741824.0;

int failed() {
  std::fprintf(stderr, "tutti-plan: %s\n", tuttiParallelGetLastError());
  return 1;
}

struct Published {
  const char* name;
  double hidden, heads, layers, microBatch;
  int tp, pp, chunks;
};
const Published kModels[] = {{"22B", 6144, 64, 48, 4, 8, 1, 1},
                             {"175B", 12288, 96, 96, 1, 8, 8, 3},
                             {"530B", 20480, 128, 105, 1, 8, 35, 3},
                             {"1T", 25600, 160, 128, 1, 8, 64, 1}};

/// Korthikanti et al., 2022 (arXiv 2205.05198), figure 1.
int sequenceTable() {
  std::printf("%-6s %18s %22s %22s   GiB per GPU\n", "model", "states", "activations, tp", "sequence, selective");
  for (const Published& p : kModels) {
    tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
    model.layers = p.layers, model.hidden = p.hidden, model.heads = p.heads, model.sequence = 2048;
    tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
    layout.tp = p.tp, layout.pp = p.pp, layout.chunks = p.chunks, layout.microBatch = p.microBatch;
    tuttiLayoutCost_t plain = TUTTI_LAYOUT_COST_INITIALIZER, both = plain;
    if (tuttiLayoutCost(&model, &layout, &plain) != tuttiSuccess) return failed();
    layout.sequenceParallel = 1;
    layout.recompute = tuttiRecomputeSelective;
    if (tuttiLayoutCost(&model, &layout, &both) != tuttiSuccess) return failed();
    std::printf("%-6s %18.11g %22.10g %22.11g\n", p.name, (plain.values + plain.gradients + plain.optimizer) / kGiB,
                plain.activations / kGiB, both.activations / kGiB);
  }
  return 0;
}

/// Rajbhandari et al., 2020, figure 1 and table 1: 16 bytes per parameter.
int zeroTable() {
  std::printf("%-8s %6s %10s %10s %10s %10s   GB per GPU\n", "model", "GPUs", "none", "stage 1", "stage 2", "stage 3");
  const struct {
    const char* name;
    double parameters;
    int ranks;
  } rows[] = {{"7.5B", 7.5e9, 4}, {"7.5B", 7.5e9, 64}, {"128B", 128e9, 64}, {"1T", 1e12, 1024}};
  for (const auto& row : rows) {
    std::printf("%-8s %6d", row.name, row.ranks);
    for (int stage = 0; stage <= 3; ++stage) {
      tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
      model.layers = model.hidden = model.heads = model.sequence = 1;
      model.parameters = row.parameters;
      tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
      layout.dp = row.ranks, layout.zero = stage, layout.gradientBytes = 2;
      tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
      if (tuttiLayoutCost(&model, &layout, &cost) != tuttiSuccess) return failed();
      std::printf(" %10.5g", (cost.values + cost.gradients + cost.optimizer) / 1e9);
    }
    std::printf("\n");
  }
  return 0;
}

struct Scheduled {
  const char* name;
  int chunks;
};

/// In a row: of ideal time, where steps follow each other and no rank waits for all others between them.
bool bubbleRows(int ranks, int microBatches, const std::vector<Scheduled>& rows) {
  std::printf("%-24s %8s %8s %8s %10s   %d ranks, %d micro-batches, F = I = W\n", "schedule", "of total", "of ideal",
              "in a row", "in flight", ranks, microBatches);
  for (const Scheduled& row : rows) {
    tuttiSchedule_t schedule = nullptr;
    tuttiSimulation_t s = TUTTI_SIMULATION_INITIALIZER;
    if (tuttiScheduleCreate(&schedule, row.name, ranks, row.chunks, microBatches) != tuttiSuccess) return false;
    const tuttiResult_t result = tuttiScheduleSimulate(schedule, &s);
    tuttiScheduleDestroy(schedule);
    if (result != tuttiSuccess) return false;
    const std::string name =
        std::string(row.name) + (row.chunks > 1 ? ", " + std::to_string(row.chunks) + " chunks" : "");
    std::printf("%-24s %7.2f%% %7.2f%% %7.2f%% %10d\n", name.c_str(), 100 * s.bubbleOverTotal, 100 * s.bubbleOverIdeal,
                100 * (s.span - s.ideal) / s.ideal, s.peakInFlight);
  }
  return true;
}

int bubbleTable() {
  const bool all = bubbleRows(4, 16,
                              {{"gpipe", 1},
                               {"1f1b", 1},
                               {"interleaved", 2},
                               {"interleaved", 4},
                               {"breadth-first", 2},
                               {"zb-h1", 1},
                               {"zb-h2", 1},
                               {"zbv", 1}});
  std::printf("\n");
  // A number that the ranks do not divide.
  const bool uneven = bubbleRows(3, 16, {{"1f1b", 1}, {"interleaved", 2}, {"interleaved", 4}, {"breadth-first", 2}});
  return all && uneven ? 0 : failed();
}

/// Narayanan et al., 2021, section 5.1.
int daysTable() {
  const struct {
    const char* name;
    double parameters, tokens, ranks, flops;
  } rows[] = {{"175B, 300B tokens", 175e9, 300e9, 1024, 140e12}, {"1T, 450B tokens", 1e12, 450e9, 3072, 163e12}};
  for (const auto& row : rows) {
    double days = 0;
    if (tuttiTrainingDays(row.parameters, row.tokens, row.ranks, row.flops, 1, &days) != tuttiSuccess) return failed();
    std::printf("%-20s %5.0f GPUs at %3.0f TFLOP/s: %.1f days\n", row.name, row.ranks, row.flops / 1e12, days);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const std::string table = argc == 3 && std::strcmp(argv[1], "--table") == 0 ? argv[2] : "";
  if (table == "sequence") return sequenceTable();
  if (table == "zero") return zeroTable();
  if (table == "bubble") return bubbleTable();
  if (table == "days") return daysTable();
  if (argc > 2 && table.empty()) return searchLayouts(argc, argv);
  const bool asked = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  std::fprintf(
      asked ? stdout : stderr,
      "tutti-plan --table sequence | zero | bubble | days, or --version\n"
      "tutti-plan --layers N --hidden N --heads N --sequence N --batch SEQUENCES --ranks N [--vocabulary N]\n"
      "           [--kv-heads N] [--key-block KEYS] [--visible 1] [--experts N] [--choices 1] [--expert-width N]\n"
      "           [--per-node 8] [--flops 1e12] [--memory BYTES] [--node-bandwidth 100e9] [--node-latency-us 5]\n"
      "           [--bandwidth 10e9] [--latency-us 10] [--overlap 0.9] [--speeds 1,1,0.5,...]\n");
  return asked ? 0 : 2;
}
