#include "tools/plan/tables.hpp"

#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "tools/plan/formulas.hpp"
#include "tools/plan/guides.hpp"
#include "tools/plan/published_runs.hpp"
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

/// Korthikanti et al., 2022, figure 7: activations of a layer as a part of those with tensor parallelism alone.
int recomputeTable() {
  std::printf("%-6s %10s %10s %10s %10s   %% of activations with tensor parallelism alone\n", "model", "sequence",
              "selective", "both", "full");
  for (const Published& p : kModels) {
    tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
    model.layers = p.layers, model.hidden = p.hidden, model.heads = p.heads, model.sequence = 2048;
    const auto activations = [&](int sequence, int recompute) {
      tuttiLayout_t layout = TUTTI_LAYOUT_INITIALIZER;
      layout.tp = p.tp, layout.sequenceParallel = sequence, layout.recompute = recompute;
      tuttiLayoutCost_t cost = TUTTI_LAYOUT_COST_INITIALIZER;
      return tuttiLayoutCost(&model, &layout, &cost) == tuttiSuccess ? cost.activations : NAN;
    };
    const double all = activations(0, tuttiRecomputeNone) / 100;
    std::printf("%-6s %10.2f %10.2f %10.2f %10.2f\n", p.name, activations(1, tuttiRecomputeNone) / all,
                activations(0, tuttiRecomputeSelective) / all, activations(1, tuttiRecomputeSelective) / all,
                activations(0, tuttiRecomputeFull) / all);
  }
  return 0;
}

/// Korthikanti et al., 2022, table 5: parts of the peak rate that a step's published time is, by the model's operations
/// and with the scores that selective recomputation computes again.
int utilizationTable() {
  constexpr double kPeak = 312e12, kTokens = 2048, kWords = 51200;  // A100
  const struct {
    double seconds, batch, gpus, model, hardware;
  } rows[] = {{1.10, 4, 8, 41.5, 43.7},
              {13.75, 64, 64, 51.4, 52.8},
              {37.83, 280, 280, 56.0, 57.0},
              {71.49, 512, 512, 56.3, 57.0}};
  std::printf("%-6s %10s %10s %10s %10s %10s   %% of the peak\n", "model", "seconds", "model", "published", "hardware",
              "published");
  for (size_t i = 0; i < std::size(rows); ++i) {
    const Published& p = kModels[i];
    const auto& row = rows[i];
    const auto part = [&](double scores) {
      const double extra = scores * kTokens / p.hidden + kWords / (12 * p.layers * p.hidden);
      const double operations = 72 * row.batch * kTokens * p.layers * p.hidden * p.hidden * (1 + extra);
      return 100 * operations / (row.seconds * row.gpus * kPeak);
    };
    std::printf("%-6s %10.2f %10.2f %10.1f %10.2f %10.1f\n", p.name, row.seconds, part(1.0 / 6), row.model,
                part(1.0 / 3), row.hardware);
  }
  return 0;
}

/// Causal attention over a ring: the time of every round is that of its largest block.  Blocks of queries and keys in
/// the past are whole, those on the diagonal half, those in the future empty.
double usefulPart(int ranks, bool zigzag) {
  const int cut = zigzag ? 2 * ranks : ranks;  // parts of the sequence; zigzag: rank r has parts r and 2n - 1 - r
  const auto partsOf = [&](int rank) {
    return zigzag ? std::vector<int>{rank, cut - 1 - rank} : std::vector<int>{rank};
  };
  double time = 0, work = 0;
  for (int round = 0; round < ranks; ++round) {
    double longest = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      double here = 0;
      for (const int queries : partsOf(rank)) {
        for (const int keys : partsOf((rank + round) % ranks)) here += queries > keys ? 1 : queries == keys ? 0.5 : 0;
      }
      longest = std::fmax(longest, here);
      work += here / ranks;
    }
    time += longest;
  }
  return work / time;
}

int ringTable() {
  std::printf("%5s %12s %12s   useful part of the time, causal attention over a ring\n", "ranks", "in order", "zigzag");
  for (const int n : {2, 4, 8, 16, 32, 64}) {
    std::printf("%5d %11.1f%% %11.1f%%\n", n, 100 * usefulPart(n, false), 100 * usefulPart(n, true));
  }
  return 0;
}

/// Bytes on the wire for an element of weights in a step of ZeRO 3: gathered for forward and for backward, gradients
/// scattered; blocks of 32 (MXFP8) or 16 (NVFP4) share a scale of a byte.
int gatherTable() {
  std::printf("%-8s %10s %10s   bytes an element\n", "weights", "gathered", "in a step");
  const struct {
    const char* name;
    double bytes;
  } rows[] = {{"BF16", 2}, {"MXFP8", 1 + 1.0 / 32}, {"NVFP4", 0.5 + 1.0 / 16}};
  for (const auto& row : rows) std::printf("%-8s %10.4f %10.4f\n", row.name, row.bytes, 2 * row.bytes + 2);
  return 0;
}

}  // namespace

int printTable(const std::string& name) {
  if (name == "sequence") return sequenceTable();
  if (name == "zero") return zeroTable();
  if (name == "bubble") return bubbleTable();
  if (name == "days") return daysTable();
  if (name == "recompute") return recomputeTable();
  if (name == "utilization") return utilizationTable();
  if (name == "ring") return ringTable();
  if (name == "gather") return gatherTable();
  if (name == "runs") return runsTable();
  if (name == "zero-runs") return zeroRunsTable();
  if (name == "llama") return llamaTable();
  if (name == "nemo") return nemoTable();
  if (name == "long") return longTable();
  if (name == "strong") return strongTable();
  if (name == "deepseek") return deepSeekTable();
  if (name == "dualpipe") return dualPipeTable();
  if (name == "context") return contextTable();
  if (name == "zero++") return zeroPlusTable();
  if (name == "servers") return serverTable();
  if (name == "guides") return guidesTable();
  std::fprintf(stderr, "tutti-plan: --table %s: there are %s\n", name.c_str(), kTableNames);
  return 2;
}
