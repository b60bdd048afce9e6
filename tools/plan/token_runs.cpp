// Published rates in tokens a second.
#include "tools/plan/published_runs.hpp"

#include <cmath>
#include <cstdio>
#include <iterator>

#include "tools/plan/predict_run.hpp"

namespace {

/// FSDP 2 copies what it gathered out of its buffer, and gradients into one (torch/distributed/fsdp/_fully_shard,
/// _fsdp_collectives.py).  torchao's dynamic scaling reads an operand once more for its largest value.
constexpr Program kTorchtitan = {0.9, 6, 0, 0, 1};

/// Shapes of models whose runs are published as tokens a second.  SwiGLU's three products count as two.
struct Shape {
  const char* name;
  double layers, hidden, heads, kvHeads, parameters, sequence, vocabulary;
};
constexpr Shape kLlama8 = {"8B", 32, 4096, 32, 8, 6.98e9, 8192, 128256};
constexpr Shape kLlama70 = {"70B", 80, 8192, 64, 8, 68.45e9, 8192, 128256};
constexpr Shape kLlama405 = {"405B", 126, 16384, 128, 8, 401.65e9, 8192, 128256};

struct TokenRun {
  Shape shape;
  int batch, elementBytes;
  const char* layout;
  double tokens;  // published, a second and GPU
};

/// pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: Llama 3.1 with torch.compile, FSDP as zero3; with
/// pipelines gradients alone are cut.  `alternate` is that program's selective recomputation.  Its micro-batches are as
/// many as there are stages, unless it is told otherwise (torchtitan/parallelisms/pipelining_utils.py).
constexpr TokenRun kLlamaRuns[] = {
    {kLlama8, 16, 2, "dp8,zero3,micro2,alternate", 6667},
    {kLlama8, 16, 1, "dp8,zero3,micro2,alternate", 8532},
    {kLlama8, 256, 2, "dp128,zero3,micro2,alternate", 6514},
    {kLlama8, 256, 1, "dp128,zero3,micro2,alternate", 8380},
    {kLlama70, 512, 1, "tp8,dp32,zero3,micro16,sequence,full", 829},
    {kLlama405, 256, 1, "tp8,pp8,dp8,zero1,micro4,sequence,full", 100},
    {kLlama405, 256, 1, "tp8,pp8,dp8,zero1,micro2,chunks2,sequence,full", 128},
};

/// The same source, table 2: 8 GPUs, a sequence for each ring.
constexpr Shape longLlama8(double tokens) { return {"8B", 32, 4096, 32, 8, 6.98e9, tokens, 128256}; }
constexpr TokenRun kLongRuns[] = {
    {longLlama8(32768), 8, 1, "dp8,zero3,micro1,full", 3890},
    {longLlama8(65536), 4, 1, "cp2,dp4,zero3,micro1,full", 2540},
    {longLlama8(131072), 2, 1, "cp4,dp2,zero3,micro1,full", 1071},
    {longLlama8(262144), 1, 1, "cp8,zero3,micro1,full", 548},
};

constexpr Shape kGpt5 = {"GPT3-5B", 24, 4096, 32, 32, 0, 2048, 51200};
constexpr Shape kGpt20 = {"GPT3-20B", 44, 6144, 48, 48, 0, 2048, 51200};
constexpr Shape kGpt175 = {"GPT3-175B", 96, 12288, 96, 96, 0, 2048, 51200};
constexpr Shape kLlama2Small = {"LLAMA2-7B", 32, 4096, 32, 32, 6.476e9, 4096, 32000};
constexpr Shape kLlama2Middle = {"LLAMA2-13B", 40, 5120, 40, 40, 12.687e9, 4096, 32000};
constexpr Shape kLlama2Large = {"LLAMA2-70B", 80, 8192, 64, 8, 68.45e9, 4096, 32000};
constexpr Shape kNemotron8 = {"Nemotron-8B", 32, 4096, 32, 32, 0, 4096, 256000};
constexpr Shape kNemotron22 = {"Nemotron-22B", 40, 6144, 48, 48, 0, 4096, 256000};
constexpr Shape kNemotron340 = {"Nemotron-340B", 96, 18432, 96, 8, 331.58e9, 4096, 256000};
constexpr Shape kLlama3Small = {"LLAMA3-8B", 32, 4096, 32, 8, 6.98e9, 8192, 128256};
constexpr Shape kLlama3Large = {"LLAMA3-70B", 80, 8192, 64, 8, 68.45e9, 8192, 128256};

/// NVIDIA/NeMo, docs/source/performance/performance_summary.md: fp8 on DGX H100, release 24.07.  The shapes give the
/// operations that it prints of each row.  It does not say what is computed again; `selective` is attention alone.
constexpr TokenRun kNemoRuns[] = {
    {kGpt5, 2048, 1, "dp64,zero1,micro4,selective", 22521},
    {kGpt20, 256, 1, "tp2,dp32,zero1,micro2,sequence,selective", 5851},
    {kGpt175, 256, 1, "tp4,pp8,dp4,chunks6,zero1,micro1,sequence,selective", 726},
    {kGpt175, 2048, 1, "tp4,pp8,dp16,chunks6,zero1,micro2,sequence,selective", 782},
    {kLlama2Small, 128, 1, "dp8,zero1,micro1,selective", 16847},
    {kLlama2Middle, 128, 1, "pp4,dp4,chunks10,zero1,micro1,selective", 8646},
    {kLlama2Large, 128, 1, "tp4,pp4,dp4,chunks20,zero1,micro1,sequence,selective", 1707},
    {kNemotron8, 256, 1, "tp2,dp32,zero1,micro4,sequence,selective", 12701},
    {kNemotron22, 256, 1, "tp2,pp4,dp8,chunks10,zero1,micro2,sequence,selective", 4256},
    {kNemotron340, 32, 1, "tp8,pp8,dp2,chunks12,zero1,micro1,sequence,selective", 322},
    {kLlama3Small, 128, 1, "cp2,dp4,zero1,micro1,selective", 12036},
    {kLlama3Large, 128, 1, "tp4,pp4,cp2,dp2,chunks5,zero1,micro1,sequence,selective", 1533},
};

Run runOf(const TokenRun& row, const Cluster& cluster, const Program& program) {
  return {.name = row.shape.name,
          .cluster = cluster,
          .layers = row.shape.layers,
          .hidden = row.shape.hidden,
          .heads = row.shape.heads,
          .sequence = row.shape.sequence,
          .vocabulary = row.shape.vocabulary,
          .batch = row.batch,
          .layout = row.layout,
          .parameters = row.shape.parameters,
          .kvHeads = row.shape.kvHeads,
          .elementBytes = row.elementBytes,
          .program = program};
}

double tokensOf(const TokenRun& row, const tuttiPlan_t& plan) {
  return row.batch * row.shape.sequence / (plan.stepMs / 1e3) / ranksOf(plan.layout);
}

std::string nameOf(const TokenRun& row) { return std::string(row.shape.name) + (row.elementBytes == 1 ? " fp8" : ""); }

template <size_t n>
int tokensTable(const Cluster& cluster, const Program& program, const TokenRun (&rows)[n]) {
  std::printf("%-17s %5s %-56s %9s %9s   tokens a second and GPU\n", "model", "GPUs", "layout", "published",
              "predicted");
  MeanError error;
  for (const TokenRun& row : rows) {
    const Run run = runOf(row, cluster, program);
    tuttiPlan_t plan;
    if (!predict(run, &plan)) return unplanned(run);
    const double rate = tokensOf(row, plan);
    std::printf("%-17s %5d %-56s %9.0f %9.0f %+7.1f %%  %s\n", nameOf(row).c_str(), ranksOf(plan.layout), row.layout,
                row.tokens, rate, 100 * (rate / row.tokens - 1), plan.why);
    error.add(rate / row.tokens);
  }
  error.print();
  return 0;
}

}  // namespace

/// Once with a ring's parts balanced, once in order: the source does not tell how they were cut.
int longTable() {
  std::printf("%-8s %5s %7s %-28s %9s %9s %19s   tokens a second and GPU\n", "model", "GPUs", "tokens", "layout",
              "published", "balanced", "in order");
  MeanError balanced, inOrder;
  for (const TokenRun& row : kLongRuns) {
    double rates[2];
    tuttiPlan_t plan;
    for (const bool order : {false, true}) {
      Run run = runOf(row, kGrandTeton, kTorchtitan);
      run.inOrder = order;
      if (!predict(run, &plan)) return unplanned(run);
      rates[order ? 1 : 0] = tokensOf(row, plan);
    }
    std::printf("%-8s %5d %7.0f %-28s %9.0f %9.0f %+7.1f %% %9.0f %+7.1f %%\n", nameOf(row).c_str(),
                ranksOf(plan.layout), row.shape.sequence, row.layout, row.tokens, rates[0],
                100 * (rates[0] / row.tokens - 1), rates[1], 100 * (rates[1] / row.tokens - 1));
    balanced.add(rates[0] / row.tokens);
    inOrder.add(rates[1] / row.tokens);
  }
  std::printf("balanced: ");
  balanced.print();
  std::printf("in order: ");
  inOrder.print();
  return 0;
}

int llamaTable() { return tokensTable(kGrandTeton, kTorchtitan, kLlamaRuns); }
int nemoTable() { return tokensTable(kH100, {}, kNemoRuns); }
