// The largest published runs.
#include "tools/plan/published_runs.hpp"

#include <cmath>
#include <cstdio>
#include <iterator>

#include "tools/plan/predict_run.hpp"

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

/// DeepSeek-V3's report (arXiv 2412.19437): 180,000 GPU hours for 1e12 tokens; 2,048 H800 whose links carry 160 and 50
/// GB/s; 16 stages, experts over 64 GPUs, batches of 15,360.  Its 61 layers and the one that predicts a second token
/// have 256 experts of three 7168 x 2048 matrices, of which a token takes eight, and 233 million parameters that all
/// take; 128 heads of 192 (scores) and 128 (values).
int deepSeekTable() {
  constexpr double kHours = 180e3, kTokens = 1e12, kNodes = 4, kOthers = 7.0 / 8;  // of eight nodes a token's own one
  constexpr double kSent = 2 * kNodes * kOthers * (1 + 2);  // of hidden, there in 8 bits and back in 16, twice
  constexpr double kExperts = 256.0 * 3 * 7168 * 2048, kDense = 233e6, kBlocks = 20, kMultiprocessors = 132;
  const Run run = {.name = "DeepSeek-V3",
                   .cluster = {tuttiGpuH100, 80e9, 160e9, 50e9},
                   .layers = 62,
                   .hidden = 7168,
                   .heads = 128,
                   .sequence = 4096,
                   .vocabulary = 2 * 129280,  // a head for each of both tokens
                   .batch = 15360,
                   .layout = "pp16,ep64,dp2,zero1,micro1",
                   .parameters = 62 * (kExperts + kDense),
                   .elementBytes = 1,
                   .experts = 256,
                   .choices = 8,
                   .expertWidth = 3 * 2048 / 2.0,
                   .attentionWidth = 128 * (192 + 128) / 2.0};
  tuttiPlan_t p;
  if (!predict(run, &p)) return unplanned(run);
  const double tokens = run.batch * run.sequence, gpus = ranksOf(p.layout), here = tokens / gpus * p.layout.pp;
  const double published = kHours * 3600 / kTokens * tokens / gpus;
  const double messages = here * run.layers / p.layout.pp * kSent * run.hidden / run.cluster.bandwidth;
  // In DualPipe all messages go beside a pair's computation, by multiprocessors of their own; idle is what
  // dualPipeTable has, with a forward a third of c.
  const double compute = p.computeMs / 1e3, waiting = p.stepMs / 1e3;
  const double beside = std::fmax(messages, compute * kMultiprocessors / (kMultiprocessors - kBlocks));
  const double idle = (p.layout.pp / 2.0 - 1) * 2 / 3 * beside / p.layout.microBatches;
  const auto line = [&](const char* what, double seconds) {
    std::printf("%-58s %8.2f %+7.1f %%\n", what, seconds, 100 * (seconds / published - 1));
  };
  std::printf("%s, %.0f H800, %s, batch %d: seconds of a step\n", run.name, gpus, run.layout, run.batch);
  std::printf("%-58s %8.2f\n", "published", published);
  line("DualPipe, all-to-alls beside computation", beside + idle);
  line("1F1B, every token to all of its experts in 16 bits, waited for", waiting);
  std::printf("%-58s %8.2f\n%-58s %8.2f\n%-58s %8.2f\n", "  computation", compute,
              "  all-to-alls to at most four nodes", messages, "  DualPipe's idle time", idle);
  return 0;
}
