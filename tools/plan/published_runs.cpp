#include "tools/plan/published_runs.hpp"

#include <cmath>
#include <cstdio>
#include <iterator>

#include "tools/plan/predict_run.hpp"

namespace {

/// DeepSpeed in 2021 (runtime/zero/partition_parameters.py, stage3.py before #1453).  Each gather waits for the device,
/// so that none is beside computation (#1188: "the async version is not async at all").  A layer's four matrices go one
/// by one (what has less than 1e5 elements is kept everywhere), as lists of every rank's part: the host makes a view of
/// each and enqueues a copy of each, 5 us an operation.  A layer of more than stage3_max_reuse_distance, 1e9, is given
/// up between the second forward pass and backward.
constexpr Program kDeepSpeed2021 = {0, 0, 3, 4, 1, 2 * 5};

constexpr const char* kKorthikanti = "Korthikanti et al., 2022 (arXiv 2205.05198), table 5";
/// The seconds follow from its rate: operations of the chosen experts, attention and head. SwiGLU's three products
/// count as two of one half more width.
constexpr const char* kMixtral =
    "NVIDIA/Megatron-LM, megatron/core/transformer/moe/README.md: 468 TFLOP/s, layout of its reference mappings";
constexpr const char* kMegatron = "Narayanan et al., 2021 (arXiv 2104.04473), table 1, by its rate";

constexpr Run kRuns[] = {
    {"22b-full", kKorthikanti, kSelene, 48, 6144, 64, 2048, 51200, 4, "tp8,micro4,full", 1.42, true},
    {"22b-selective", kKorthikanti, kSelene, 48, 6144, 64, 2048, 51200, 4, "tp8,micro4,sequence,selective", 1.10, true},
    {"175b-full", kKorthikanti, kSelene, 96, 12288, 96, 2048, 51200, 64, "tp8,pp8,chunks3,full", 18.13, true},
    {"175b-selective", kKorthikanti, kSelene, 96, 12288, 96, 2048, 51200, 64, "tp8,pp8,chunks3,sequence,selective",
     13.75, true},
    {"530b-full", kKorthikanti, kSelene, 105, 20480, 128, 2048, 51200, 280, "tp8,pp35,chunks3,full", 49.05, true},
    {"530b-selective", kKorthikanti, kSelene, 105, 20480, 128, 2048, 51200, 280, "tp8,pp35,chunks3,sequence,selective",
     37.83, true},
    {"1t-full", kKorthikanti, kSelene, 128, 25600, 160, 2048, 51200, 512, "tp8,pp64,full", 94.42, true},
    {"1t-selective", kKorthikanti, kSelene, 128, 25600, 160, 2048, 51200, 512, "tp8,pp64,sequence,selective", 71.49,
     true},
    {"1.7b", kMegatron, kSelene, 24, 2304, 24, 2048, 51200, 512, "dp32,full", 3.53, true, true},
    {"3.6b", kMegatron, kSelene, 30, 3072, 32, 2048, 51200, 512, "tp2,dp32,full", 3.70, true, true},
    {"7.5b", kMegatron, kSelene, 36, 4096, 32, 2048, 51200, 512, "tp4,dp32,full", 3.70, true, true},
    {"18.4b", kMegatron, kSelene, 40, 6144, 48, 2048, 51200, 1024, "tp8,dp32,full", 9.40, true, true},
    {"76.1b", kMegatron, kSelene, 60, 10240, 80, 2048, 51200, 1792, "tp8,pp4,dp32,full", 16.06, true, true},
    {"145.6b", kMegatron, kSelene, 80, 12288, 96, 2048, 51200, 2304, "tp8,pp8,dp24,full", 24.82, true, true},
    {"529.6b", kMegatron, kSelene, 105, 20480, 128, 2048, 51200, 2520, "tp8,pp35,dp9,full", 54.08, true, true},
    {"gpt3-175b", "NVIDIA/Megatron-LM, README: 1,024 A100, 138 TFLOP/s; layout: examples/pretrain_gpt3_175B.sh",
     kSelene, 96, 12288, 96, 2048, 51200, 1536, "tp8,pp16,dp8,micro1,full", 32, true},
    {"gpt2-124m", "karpathy/llm.c: 18865 steps in 94 minutes", kA100, 12, 768, 12, 1024, 50304, 512,
     "dp8,micro64,zero1,selective", 0.299},
    {"gpt2-1.6b", "karpathy/llm.c: 32000 steps in 24 hours", kH100, 48, 1600, 25, 1024, 50304, 1024,
     "dp8,micro16,zero1,selective", 2.7},
    {"mixtral-8x7b", kMixtral, kH100, 32, 4096, 32, 4096, 32000, 256, "pp4,ep8,dp2,chunks8,micro1,zero1", 2.90, false,
     false, 46.44e9, 8, 2, 8, 2, 21504},
};

constexpr double kSequence = 2048, kVocabulary = 51200;

struct RateRun {
  const char* name;
  double layers, hidden, heads;
  int batch;
  const char* layout;
  double teraflops;  // published, of a GPU
};

/// Narayanan et al., 2021 (arXiv 2104.04473), table 2: ZeRO 3 alone beside tensor and pipeline parallelism.
constexpr RateRun kZeroRuns[] = {
    {"175B", 96, 12288, 96, 1536, "dp384,zero3,micro4,full", 144},
    {"175B", 96, 12288, 96, 1536, "dp768,zero3,micro2,full", 88},
    {"175B", 96, 12288, 96, 1536, "dp1536,zero3,micro1,full", 44},
    {"175B", 96, 12288, 96, 1536, "tp8,pp12,dp4,full", 153},
    {"175B", 96, 12288, 96, 1536, "tp8,pp12,dp8,full", 149},
    {"175B", 96, 12288, 96, 1536, "tp8,pp12,dp16,full", 141},
    {"530B", 105, 20480, 128, 2560, "dp640,zero3,micro4,full", 138},
    {"530B", 105, 20480, 128, 2240, "dp1120,zero3,micro2,full", 98},
    {"530B", 105, 20480, 128, 2240, "dp2240,zero3,micro1,full", 48},
    {"530B", 105, 20480, 128, 2240, "tp8,pp35,dp2,full", 171},
    {"530B", 105, 20480, 128, 2240, "tp8,pp35,dp4,full", 167},
    {"530B", 105, 20480, 128, 2240, "tp8,pp35,dp8,full", 159},
};

/// Operations of a step with full recomputation; the same paper, equation 3.
double operationsOf(const RateRun& run) {
  return 96.0 * run.batch * kSequence * run.layers * run.hidden * run.hidden *
         (1 + kSequence / (6 * run.hidden) + kVocabulary / (16 * run.layers * run.hidden));
}

void runLine(const Run& run, const tuttiPlan_t& plan) {
  const double predicted = plan.stepMs / 1e3;
  std::printf("%-15s %5d %-36s %10.3f %10.3f %+7.1f %%  %s\n", run.name, ranksOf(plan.layout), run.layout, run.seconds,
              predicted, 100 * (predicted / run.seconds - 1), plan.why);
}

void runsHeader() {
  std::printf("%-15s %5s %-36s %10s %10s   seconds of a step\n", "run", "GPUs", "layout", "published", "predicted");
}

}  // namespace

int runsTable() {
  runsHeader();
  MeanError error;
  for (const Run& run : kRuns) {
    tuttiPlan_t plan;
    if (!predict(run, &plan)) return unplanned(run);
    runLine(run, plan);
    error.add(plan.stepMs / 1e3 / run.seconds);
  }
  error.print();
  return 0;
}

namespace {

Run runOf(const RateRun& row, const Program& program) {
  return {.name = row.name,
          .cluster = kSelene,
          .layers = row.layers,
          .hidden = row.hidden,
          .heads = row.heads,
          .sequence = kSequence,
          .vocabulary = kVocabulary,
          .batch = row.batch,
          .layout = row.layout,
          .wholeScores = true,
          .program = program};
}

}  // namespace

/// Stage 3 as DeepSpeed had it then, and as this library has it: beside computation, without copies.
int zeroRunsTable() {
  std::printf("%-6s %5s %-25s %9s %9s %19s   TFLOP/s of a GPU\n", "model", "GPUs", "layout", "published", "predicted",
              "hidden");
  MeanError then, now;
  for (const RateRun& row : kZeroRuns) {
    double rates[2];
    tuttiPlan_t plans[2];
    for (const int hidden : {0, 1}) {
      const Run run = runOf(row, hidden != 0 ? Program{} : kDeepSpeed2021);
      if (!predict(run, &plans[hidden])) return unplanned(run);
      rates[hidden] = operationsOf(row) / (plans[hidden].stepMs / 1e3) / ranksOf(plans[hidden].layout) / 1e12;
    }
    const auto off = [&](double rate) { return 100 * (rate / row.teraflops - 1); };
    std::printf("%-6s %5d %-25s %9.0f %9.0f %+7.1f %% %9.0f %+7.1f %%  %s\n", row.name, ranksOf(plans[0].layout),
                row.layout, row.teraflops, rates[0], off(rates[0]), rates[1], off(rates[1]), plans[0].why);
    then.add(rates[0] / row.teraflops);
    now.add(rates[1] / row.teraflops);
  }
  then.print();
  std::printf("with stage 3 hidden: ");
  now.print();
  return 0;
}

int printRun(const std::string& name) {
  for (const Run& run : kRuns) {
    if (name != run.name) continue;
    tuttiPlan_t p;
    if (!predict(run, &p)) return unplanned(run);
    runsHeader();
    runLine(run, p);
    std::printf(
        "%s\n%.0f layers of %.0f, batch %d; computation %.1f ms, tensor-parallel sums %.1f, pipeline messages %.1f, "
        "bubble %.1f, exposed gradients %.1f; memory %.1f GB\n",
        run.source, run.layers, run.hidden, run.batch, p.computeMs, p.tpMs, p.ppMs, p.bubbleMs, p.exposedMs,
        p.memory / 1e9);
    return 0;
  }
  std::fprintf(stderr, "tutti-plan: --run %s: there are", name.c_str());
  for (const Run& run : kRuns) std::fprintf(stderr, " %s", run.name);
  std::fprintf(stderr, "\n");
  return 2;
}
