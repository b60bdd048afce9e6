// The formula sheet: memory and traffic of a layout.
#include "tutti/parallel/planner.h"

#include <algorithm>

#include "src/parallel/fail.hpp"

namespace tutti::parallel {
namespace {

double perLayer(const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  const double sbh = m.sequence * l.microBatch * m.hidden, t = l.tp;
  const bool cut = l.sequenceParallel != 0;
  if (l.recompute == tuttiRecomputeFull) return 2 * sbh / (cut ? t : 1);
  const double scores = l.recompute == tuttiRecomputeNone ? 5 * m.heads * m.sequence / m.hidden : 0;
  return cut ? sbh / t * (34 + scores) : sbh * (10 + 24 / t + scores / t);
}

void checkShapes(const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  require(m.layers > 0 && m.hidden > 0 && m.heads > 0 && m.sequence > 0,
          "the model has no layers, width, heads or tokens");
  require(l.tp >= 1 && l.pp >= 1 && l.dp >= 1 && l.chunks >= 1 && l.microBatch > 0 && l.microBatches >= 0,
          "a layout of tp ", l.tp, ", pp ", l.pp, ", dp ", l.dp, ", ", l.chunks, " chunks");
  require(l.zero >= 0 && l.zero <= 3, "there is no stage ", l.zero);
  require(l.recompute >= tuttiRecomputeNone && l.recompute <= tuttiRecomputeFull, "recompute is ", l.recompute);
}

}  // namespace
}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiLayoutCost(const tuttiModelShape_t* model, const tuttiLayout_t* layout, tuttiLayoutCost_t* cost) {
  return guarded([&] {
    const auto m = takeConfig<tuttiModelShape_t>(model, TUTTI_MODEL_SHAPE_INITIALIZER, "model");
    const auto l = takeConfig<tuttiLayout_t>(layout, TUTTI_LAYOUT_INITIALIZER, "layout");
    require(cost != nullptr && cost->size == sizeof(tuttiLayoutCost_t),
            "cost does not begin from TUTTI_LAYOUT_COST_INITIALIZER");
    checkShapes(m, l);
    const double whole = m.parameters > 0 ? m.parameters : 12 * m.layers * m.hidden * m.hidden;
    const double here = whole / l.tp / l.pp, d = l.dp, p = l.pp, v = l.chunks;
    const int micro = l.microBatches > 0 ? l.microBatches : l.pp;
    cost->values = here * l.valueBytes / (l.zero >= 3 ? d : 1);
    cost->gradients = here * l.gradientBytes / (l.zero >= 2 ? d : 1);
    cost->optimizer = here * l.optimizerBytes / (l.zero >= 1 ? d : 1);
    const double inFlight = std::min<double>(micro, p) / p * (v > 1 ? 1 + (p - 1) / (p * v) : 1);
    cost->activations = perLayer(m, l) * m.layers * inFlight;
    const double activation = m.sequence * l.microBatch * m.hidden * l.valueBytes;
    const double t = l.tp;
    cost->tpBytes = 4 * 2 * (t - 1) / t * activation * m.layers / p * micro;
    cost->ppBytes = l.pp == 1 ? 0 : 2 * activation / (l.sequenceParallel ? t : 1) * v * micro;
    const double share = (d - 1) / d, values = here * l.valueBytes, gradients = here * l.gradientBytes;
    const double reductions = l.zero >= 2 ? micro : 1, gathers = l.zero == 3 ? 2.0 * micro : 1;
    cost->dpBytes = share * (reductions * gradients + gathers * (l.zero == 0 ? gradients : values));
    cost->bubble = (p - 1) / (v * micro);
  });
}

tuttiResult_t tuttiTrainingDays(double parameters, double tokens, double ranks, double flops, int recompute,
                                double* days) {
  return guarded([&] {
    require(days != nullptr && ranks > 0 && flops > 0, "days is NULL, or there are no ranks that compute");
    *days = (recompute ? 8 : 6) * tokens * parameters / (ranks * flops) / 86400;
  });
}
