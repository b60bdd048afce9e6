#include "tools/plan/published_runs.hpp"

#include <cmath>
#include <cstdio>
#include <iterator>

#include "tools/plan/asked.hpp"

namespace {

/// A machine by its specification: links by the rules of NCCL's planner (its topo.h), per GPU.
struct Cluster {
  int gpu;
  double memory, nodeBandwidth, bandwidth;
  double watts = 0, memoryBandwidth = 0;  // where they are not the generation's own
};
constexpr Cluster kSelene = {tuttiGpuA100, 80e9, 12 * 20e9, 24e9};  // DGX A100, 8 x 200 Gbit/s
constexpr Cluster kA100 = {tuttiGpuA100, 40e9, 12 * 20e9, 24e9};
constexpr Cluster kH100 = {tuttiGpuH100, 80e9, 18 * 20.6e9, 48e9};  // DGX H100, 8 x 400 Gbit/s
constexpr Cluster kGrandTeton = {tuttiGpuH100, 96e9, 18 * 20.6e9, 48e9, 500, 2.4e12};

struct Run {
  const char* name;
  const char* source = "";
  Cluster cluster;
  double layers, hidden, heads, sequence, vocabulary;
  int batch;
  const char* layout;
  double seconds = 0;        // published, of a step
  bool wholeScores = false;  // attention keeps all scores of a head
  bool open = false;         // micro-batches and chunks are not told: those that are fastest and fit
  double parameters = 0;     // of the layers; 0: 12 layers hidden^2
  double kvHeads = 0;        // 0: heads
  int elementBytes = 2;      // of products
  double experts = 0, choices = 1, expertWidth = 0;
  int adapters = 0;      // of a node that one group uses at once; 0: all of its ranks'
  bool inOrder = false;  // a ring's ranks have tokens one behind the other: the last one computes most scores
};

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

int ranksOf(const tuttiLayout_t& l) { return l.tp * l.cp * l.ep * l.pp * l.dp; }

bool predictOne(const Run& run, const tuttiLayout_t& layout, tuttiPlan_t* plan) {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = run.layers, model.hidden = run.hidden, model.heads = run.heads, model.sequence = run.sequence;
  model.vocabulary = run.vocabulary, model.parameters = run.parameters, model.kvHeads = run.kvHeads;
  model.experts = run.experts, model.choices = run.choices, model.expertWidth = run.expertWidth;
  model.keyBlock = run.wholeScores ? run.sequence : 0;
  // Kernels that have no scores in memory pass by hidden ones, too.  In order the last rank of c has c - 1 parts of the
  // keys whole and half of its own, where the mean is c / 2.
  const double cp = layout.cp, part = run.inOrder ? (2 * cp - 1) / cp : 1;
  model.visible = run.wholeScores ? 1 : 0.5 * part;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  machine.ranks = ranksOf(layout);
  machine.gpu = run.cluster.gpu, machine.memory = run.cluster.memory, machine.elementBytes = run.elementBytes;
  machine.nodeBandwidth = run.cluster.nodeBandwidth, machine.bandwidth = run.cluster.bandwidth;
  machine.adapters = run.adapters;
  machine.watts = run.cluster.watts, machine.memoryBandwidth = run.cluster.memoryBandwidth;
  return tuttiPlanLayout(&model, &machine, run.batch, &layout, plan) == tuttiSuccess;
}

bool predict(const Run& run, tuttiPlan_t* best) {
  tuttiLayout_t layout = parseLayout(run.layout);
  if (!run.open) return predictOne(run, layout, best);
  bool any = false;
  for (const int micro : {1, 2, 4, 8, 16}) {
    for (int chunks = 1; chunks <= (layout.pp > 1 ? 4 : 1); ++chunks) {
      layout.microBatch = micro, layout.chunks = chunks;
      tuttiPlan_t plan;
      if (std::fmod(run.layers, layout.pp * chunks) != 0 || !predictOne(run, layout, &plan)) continue;
      const bool better = any && plan.fits == best->fits ? plan.stepMs < best->stepMs : !any || plan.fits;
      if (better) *best = plan;
      any = true;
    }
  }
  return any;
}

/// How far predictions are off.
class MeanError {
 public:
  /// ratio: predicted beside published.
  void add(double ratio) {
    sum_ += std::fabs(std::log(ratio));
    ++count_;
  }
  void print() const { std::printf("geometric mean of the error: %.1f %%\n", 100 * std::expm1(sum_ / count_)); }

 private:
  double sum_ = 0;
  int count_ = 0;
};

int unplanned(const Run& run) {
  std::fprintf(stderr, "tutti-plan: %s: %s\n", run.name, tuttiParallelGetLastError());
  return 1;
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

Run runOf(const RateRun& row, int adapters) {
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
          .adapters = adapters};
}

}  // namespace

/// Once with all adapters of a node, once with one for each group.
int zeroRunsTable() {
  std::printf("%-6s %5s %-25s %9s %9s %19s   TFLOP/s of a GPU\n", "model", "GPUs", "layout", "published", "predicted",
              "by one adapter");
  MeanError all, one;
  for (const RateRun& row : kZeroRuns) {
    double rates[2];
    tuttiPlan_t plan;
    for (const int adapters : {1, 0}) {
      const Run run = runOf(row, adapters);
      if (!predict(run, &plan)) return unplanned(run);
      rates[adapters] = operationsOf(row) / (plan.stepMs / 1e3) / ranksOf(plan.layout) / 1e12;
    }
    const auto off = [&](double rate) { return 100 * (rate / row.teraflops - 1); };
    std::printf("%-6s %5d %-25s %9.0f %9.0f %+7.1f %% %9.0f %+7.1f %%  %s\n", row.name, ranksOf(plan.layout),
                row.layout, row.teraflops, rates[0], off(rates[0]), rates[1], off(rates[1]), plan.why);
    all.add(rates[0] / row.teraflops);
    one.add(rates[1] / row.teraflops);
  }
  std::printf("all adapters of a node: ");
  all.print();
  std::printf("one for each group: ");
  one.print();
  return 0;
}

namespace {

Run runOf(const TokenRun& row, const Cluster& cluster) {
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
          .elementBytes = row.elementBytes};
}

double tokensOf(const TokenRun& row, const tuttiPlan_t& plan) {
  return row.batch * row.shape.sequence / (plan.stepMs / 1e3) / ranksOf(plan.layout);
}

std::string nameOf(const TokenRun& row) { return std::string(row.shape.name) + (row.elementBytes == 1 ? " fp8" : ""); }

template <size_t n>
int tokensTable(const Cluster& cluster, const TokenRun (&rows)[n]) {
  std::printf("%-17s %5s %-56s %9s %9s   tokens a second and GPU\n", "model", "GPUs", "layout", "published",
              "predicted");
  MeanError error;
  for (const TokenRun& row : rows) {
    const Run run = runOf(row, cluster);
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
      Run run = runOf(row, kGrandTeton);
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

int llamaTable() { return tokensTable(kGrandTeton, kLlamaRuns); }
int nemoTable() { return tokensTable(kH100, kNemoRuns); }

/// NVIDIA/Megatron-LM, README and its figures: 175B with 131,072 words, 1,152 sequences of 4,096 tokens, bf16.  Parts
/// of the peak are published of 96, 2,304 and 4,608 GPUs; the layout is that of its weak scaling to 2,304.
int strongTable() {
  constexpr double kPeak = 989e12;
  const struct {
    const char* layout;
    const char* published;
  } rows[] = {{"tp8,pp6,dp2,zero1,sequence,selective", "47"}, {"tp8,pp6,dp4,zero1,sequence,selective", "-"},
              {"tp8,pp6,dp8,zero1,sequence,selective", "-"},  {"tp8,pp6,dp16,zero1,sequence,selective", "-"},
              {"tp8,pp6,dp32,zero1,sequence,selective", "-"}, {"tp8,pp6,dp48,zero1,sequence,selective", "43.8"},
              {"tp8,pp6,dp96,zero1,sequence,selective", "42"}};
  std::printf("%5s %-40s %10s %10s   %% of the peak\n", "GPUs", "layout", "published", "predicted");
  for (const auto& row : rows) {
    const Run run = {.name = "177B",
                     .cluster = kH100,
                     .layers = 96,
                     .hidden = 12288,
                     .heads = 96,
                     .sequence = 4096,
                     .vocabulary = 131072,
                     .batch = 1152,
                     .layout = row.layout,
                     .open = true};
    tuttiPlan_t plan;
    if (!predict(run, &plan)) return unplanned(run);
    const double operations = 72.0 * run.batch * run.sequence * run.layers * run.hidden * run.hidden *
                              (1 + run.sequence / (6 * run.hidden) + run.vocabulary / (12 * run.layers * run.hidden));
    const double part = 100 * operations / (plan.stepMs / 1e3 * ranksOf(plan.layout) * kPeak);
    std::printf("%5d %-40s %10s %10.1f   %s\n", ranksOf(plan.layout), row.layout, row.published, part, plan.why);
  }
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
