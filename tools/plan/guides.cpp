#include "tools/plan/guides.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/parallel/planner.h"

namespace {

/// Megatron-LM's guide to parallelism strategies names axes alone; batches and sequences are those of the models'
/// papers.
struct Guide {
  const char* name;
  double layers, hidden, heads, kvHeads, sequence, vocabulary;
  double parameters;  // of the layers; 0: 12 layers hidden^2
  int ranks, batch;
  int tp, pp, cp;
  int ep = 1;
  double experts = 0, choices = 1, expertWidth = 0;  // SwiGLU's three products as two of one half more
};
constexpr Guide kGuides[] = {
    {"Llama 3 8B", 32, 4096, 32, 8, 8192, 128256, 6.98e9, 8, 128, 1, 1, 2},
    {"Llama 3 70B", 80, 8192, 64, 8, 8192, 128256, 68.45e9, 64, 128, 4, 4, 2},
    {"Llama 3.1 405B", 126, 16384, 128, 8, 8192, 128256, 401.65e9, 1024, 2048, 8, 8, 2},
    {"Mixtral 8x7B", 32, 4096, 32, 8, 4096, 32000, 46.44e9, 64, 256, 1, 4, 1, 8, 8, 2, 21504},
    {"GPT-3 175B", 96, 12288, 96, 0, 2048, 51200, 0, 128, 1536, 4, 8, 1},
};

std::vector<tuttiPlan_t> plansFor(const Guide& guide) {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = guide.layers, model.hidden = guide.hidden, model.heads = guide.heads, model.kvHeads = guide.kvHeads;
  model.sequence = guide.sequence, model.vocabulary = guide.vocabulary, model.parameters = guide.parameters;
  model.experts = guide.experts, model.choices = guide.choices, model.expertWidth = guide.expertWidth;
  model.visible = 0.5;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  machine.ranks = guide.ranks, machine.gpu = tuttiGpuH100, machine.memory = 80e9;
  machine.nodeBandwidth = 18 * 20.6e9, machine.bandwidth = 48e9;
  size_t count = 0;
  if (tuttiPlanSearch(&model, &machine, guide.batch, nullptr, 0, &count) != tuttiSuccess) return {};
  std::vector<tuttiPlan_t> plans(count);
  if (tuttiPlanSearch(&model, &machine, guide.batch, plans.data(), count, &count) != tuttiSuccess) return {};
  return plans;
}

std::string axesOf(const tuttiLayout_t& l) {
  std::string text = "tp" + std::to_string(l.tp) + " pp" + std::to_string(l.pp);
  if (l.cp > 1) text += " cp" + std::to_string(l.cp);
  if (l.ep > 1) text += " ep" + std::to_string(l.ep);
  return text + " dp" + std::to_string(l.dp) + " zero" + std::to_string(l.zero);
}

}  // namespace

int guidesTable() {
  std::printf("%-15s %5s %6s %-26s %10s %-26s %10s   DGX H100; seconds of a step\n", "model", "GPUs", "batch", "guide",
              "step", "search", "step");
  for (const Guide& guide : kGuides) {
    const std::vector<tuttiPlan_t> plans = plansFor(guide);
    const auto same = std::find_if(plans.begin(), plans.end(), [&](const tuttiPlan_t& p) {
      return p.layout.tp == guide.tp && p.layout.pp == guide.pp && p.layout.cp == guide.cp && p.layout.ep == guide.ep;
    });
    if (same == plans.end()) {
      std::fprintf(stderr, "tutti-plan: %s: %s\n", guide.name, tuttiParallelGetLastError());
      return 1;
    }
    std::printf("%-15s %5d %6d %-26s %10.3f %-26s %10.3f   %s\n", guide.name, guide.ranks, guide.batch,
                axesOf(same->layout).c_str(), same->stepMs / 1e3, axesOf(plans[0].layout).c_str(),
                plans[0].stepMs / 1e3, same == plans.begin() ? "the same" : same->why);
  }
  return 0;
}
