// The formula sheet: memory and traffic of a layout.
#include "tutti/parallel/planner.h"

#include <algorithm>

#include "src/parallel/fail.hpp"
#include "src/parallel/model_parameters.hpp"
#include "src/parallel/pipeline_figures.hpp"

namespace tutti::parallel {
namespace {

double perLayer(const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  const double sbh = m.sequence / l.cp * l.microBatch * m.hidden, t = l.tp;  // scores, too: of own queries, all keys
  const bool cut = l.sequenceParallel != 0;
  if (l.recompute == tuttiRecomputeFull) return 2 * sbh / (cut ? t : 1);
  // Of 2 bytes each: the input, attention's result, and half of what products give (q, k, v, h, 4h, h).
  if (l.recompute == tuttiRecomputeAlternate) return sbh * (cut ? 13 / t : 4 + 9 / t);
  const double scores = l.recompute == tuttiRecomputeNone ? 5 * m.heads * m.sequence / m.hidden : 0;
  return cut ? sbh / t * (34 + scores) : sbh * (10 + 24 / t + scores / t);
}

/// Beside what is kept, while backward is in a layer.
double workingSet(const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  if (l.recompute == tuttiRecomputeNone) return 0;
  const double tokens = m.sequence / l.cp, tile = std::min(tokens, 1024.0);  // of kernels.h on CUDA
  const double scores = m.keyBlock > 0 ? tokens * std::min(m.keyBlock, tokens) : tile * tile;
  tuttiLayout_t otherwise = l;
  otherwise.recompute = tuttiRecomputeSelective;
  return perLayer(m, otherwise) - perLayer(m, l) + 2 * scores * l.valueBytes;
}

void checkShapes(const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  require(m.layers > 0 && m.hidden > 0 && m.heads > 0 && m.sequence > 0,
          "the model has no layers, width, heads or tokens");
  require(l.tp >= 1 && l.pp >= 1 && l.dp >= 1 && l.chunks >= 1 && l.microBatch > 0 && l.microBatches >= 0,
          "a layout of tp ", l.tp, ", pp ", l.pp, ", dp ", l.dp, ", ", l.chunks, " chunks");
  require(l.cp >= 1 && l.ep >= 1 && l.cp <= m.sequence && m.experts >= 0, "a layout of cp ", l.cp, ", ep ", l.ep);
  require(m.experts == 0 ? l.ep == 1 : l.ep <= m.experts && m.choices >= 1 && m.choices <= m.experts, l.ep,
          " ranks over ", m.experts, " experts, ", m.choices, " of each token");
  require(m.kvHeads >= 0 && m.kvHeads <= m.heads && m.keyBlock >= 0, m.kvHeads, " heads of keys, blocks of ",
          m.keyBlock, " keys");
  require(m.visible > 0 && m.visible <= 1, "attention computes a part of ", m.visible, " of its scores; above 0, to 1");
  require(l.zero >= 0 && l.zero <= 3, "there is no stage ", l.zero);
  require(l.recompute >= tuttiRecomputeNone && l.recompute <= tuttiRecomputeAlternate, "recompute is ", l.recompute);
}

}  // namespace

void layoutCost(const tuttiModelShape_t& m, const tuttiLayout_t& l, PipelineSimulations& pipelines,
                tuttiLayoutCost_t* cost) {
  checkShapes(m, l);
  const ModelParameters parameters = parametersOf(m);
  require(parameters.dense >= 0, "experts alone have more than ", m.parameters, " parameters");
  // Replicas: of what every rank computes with, and of an expert.  Tensor parallelism does not cut experts.
  const double dense = parameters.dense / l.tp / l.pp, experts = parameters.experts / l.ep / l.pp;
  const double d = 1.0 * l.dp * l.cp * l.ep, dx = 1.0 * l.dp * l.cp, p = l.pp, v = l.chunks;
  const auto held = [&](double bytes, bool cut) { return bytes * (cut ? dense / d + experts / dx : dense + experts); };
  const int micro = microBatchesOf(l);
  const PipelineFigures pipeline = pipelines.of(l, 2 + recomputed(m, l.recompute));
  cost->values = held(l.valueBytes, l.zero >= 3);
  cost->gradients = held(l.gradientBytes, l.zero >= 2);
  cost->optimizer = held(l.optimizerBytes, l.zero >= 1);
  cost->inFlight = pipeline.inFlight;
  cost->activations = perLayer(m, l) * m.layers / (p * v) * cost->inFlight;
  const double activation = m.sequence / l.cp * l.microBatch * m.hidden * l.valueBytes;
  const double t = l.tp, e = l.ep, pairs = m.layers / p * micro;
  const double forwards = forwardsOf(l);
  cost->working = workingSet(m, l);
  cost->logits = 4 * m.sequence / l.cp * l.microBatch * m.vocabulary / t;
  cost->tpBytes = (2 * forwards + 2) * 2 * (t - 1) / t * activation * m.layers / p * micro;
  cost->ppBytes = activation / (l.sequenceParallel ? t : 1) * static_cast<double>(pipeline.messages);
  const double keys = activation * (m.kvHeads > 0 ? m.kvHeads / m.heads : 1);
  cost->cpBytes = l.cp == 1 ? 0 : ringHops(l) * 2 * keys / t * pairs;
  // Tokens go to experts and back, in each pass.
  cost->epBytes = l.ep == 1 ? 0 : (2 * forwards + 2) * m.choices * activation * (e - 1) / e * pairs;
  const double sent = dense * (d - 1) / d + experts * (dx - 1) / dx;
  const double reductions = l.zero >= 2 ? micro : 1, gathers = l.zero == 3 ? 2.0 * micro : 1;
  cost->dpBytes = sent * (reductions * l.gradientBytes + gathers * (l.zero == 0 ? l.gradientBytes : l.valueBytes));
  cost->bubble = pipeline.bubble;
}

}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiLayoutCost(const tuttiModelShape_t* model, const tuttiLayout_t* layout, tuttiLayoutCost_t* cost) {
  return guarded([&] {
    const auto m = takeConfig<tuttiModelShape_t>(model, TUTTI_MODEL_SHAPE_INITIALIZER, "model");
    const auto l = takeConfig<tuttiLayout_t>(layout, TUTTI_LAYOUT_INITIALIZER, "layout");
    require(cost != nullptr && cost->size == sizeof(tuttiLayoutCost_t),
            "cost does not begin from TUTTI_LAYOUT_COST_INITIALIZER");
    PipelineSimulations pipelines;
    layoutCost(m, l, pipelines, cost);
  });
}

tuttiResult_t tuttiTrainingDays(double parameters, double tokens, double ranks, double flops, int recompute,
                                double* days) {
  return guardedIf(days != nullptr && ranks > 0 && flops > 0, "days is NULL, or there are no ranks that compute",
                   [&] { *days = (recompute ? 8 : 6) * tokens * parameters / (ranks * flops) / 86400; });
}
