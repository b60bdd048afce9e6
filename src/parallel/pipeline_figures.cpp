#include "src/parallel/pipeline_figures.hpp"

#include <algorithm>

#include "src/parallel/fail.hpp"
#include "src/parallel/schedule.hpp"

namespace tutti::parallel {

PipelineSimulations::Simulated PipelineSimulations::simulated(const tuttiLayout_t& l, int microBatches,
                                                              double backward) {
  constexpr double kMost = 1 << 22;  // stages and micro-batches; a few hundred megabytes
  require(1.0 * l.pp * l.chunks * microBatches <= kMost, "a pipeline of ", l.pp, " ranks with ", l.chunks,
          " chunks each is too large to be simulated");
  const PipelineSchedule s = namedSchedule(scheduleOf(l), l.pp, l.chunks, microBatches);
  tuttiSimulation_t costs = TUTTI_SIMULATION_INITIALIZER;
  costs.backwardInput = backward - 1, costs.backwardWeight = 1;
  simulate(s, costs);
  int messages = 0;
  for (const auto& row : s.actions) {
    const auto sends = std::count_if(row.begin(), row.end(), [](const tuttiAction_t& a) {
      return a.kind == tuttiActionSendForward || a.kind == tuttiActionSendBackward;
    });
    messages = std::max(messages, static_cast<int>(sends));
  }
  return {costs.total - costs.ideal, messages / microBatches, costs.peakInFlight, inFlight(s).back()};
}

PipelineFigures PipelineSimulations::of(const tuttiLayout_t& l, double backward) {
  const int all = microBatchesOf(l), few = fewerMicroBatches(l.pp, l.chunks, all);
  const auto key = std::tuple(l.pp, l.chunks, few, backward);
  auto found = known_.find(key);
  if (found == known_.end()) found = known_.emplace(key, simulated(l, few, backward)).first;
  const Simulated& s = found->second;
  const double ideal = (1 + backward) * l.chunks * all;
  return {s.idle / ideal, static_cast<int64_t>(s.messages) * all, s.inFlight, s.inFlightLast};
}

}  // namespace tutti::parallel
