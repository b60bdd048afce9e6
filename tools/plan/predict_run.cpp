#include "tools/plan/predict_run.hpp"

#include <cmath>
#include <cstdio>

#include "tools/plan/asked.hpp"

namespace {

bool predictOne(const Run& run, const tuttiLayout_t& layout, tuttiPlan_t* plan) {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  model.layers = run.layers, model.hidden = run.hidden, model.heads = run.heads, model.sequence = run.sequence;
  model.vocabulary = run.vocabulary, model.parameters = run.parameters, model.kvHeads = run.kvHeads;
  model.experts = run.experts, model.choices = run.choices, model.expertWidth = run.expertWidth;
  model.attentionWidth = run.attentionWidth;
  model.keyBlock = run.wholeScores ? run.sequence : 0;
  // Kernels that have no scores in memory pass by hidden ones, too.  In order the last rank of c has c - 1 parts of the
  // keys whole and half of its own, where the mean is c / 2.
  const double cp = layout.cp, part = run.inOrder ? (2 * cp - 1) / cp : 1;
  model.visible = run.wholeScores ? 1 : 0.5 * part;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  machine.ranks = ranksOf(layout);
  machine.gpu = run.cluster.gpu, machine.memory = run.cluster.memory, machine.elementBytes = run.elementBytes;
  machine.nodeBandwidth = run.cluster.nodeBandwidth, machine.bandwidth = run.cluster.bandwidth;
  machine.sustained = run.cluster.sustained;
  machine.overlap = run.program.overlap, machine.castBytes = run.program.castBytes;
  machine.gathers = run.program.gathers, machine.tensors = run.program.tensors;
  machine.memoryCopies = run.program.memoryCopies;
  machine.partUs = run.program.partUs;
  machine.watts = run.cluster.watts, machine.memoryBandwidth = run.cluster.memoryBandwidth;
  return tuttiPlanLayout(&model, &machine, run.batch, &layout, plan) == tuttiSuccess;
}

}  // namespace

int ranksOf(const tuttiLayout_t& l) { return l.tp * l.cp * l.ep * l.pp * l.dp; }

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

int unplanned(const Run& run) {
  std::fprintf(stderr, "tutti-plan: %s: %s\n", run.name, tuttiParallelGetLastError());
  return 1;
}

void MeanError::add(double ratio) {
  sum_ += std::fabs(std::log(ratio));
  ++count_;
}

void MeanError::print() const {
  std::printf("geometric mean of the error: %.1f %%\n", 100 * std::expm1(sum_ / count_));
}
