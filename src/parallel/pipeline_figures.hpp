// What a layout's pipeline costs: read off its schedule, by simulation.
#pragma once

#include <map>
#include <tuple>

#include "tutti/parallel/planner.h"

namespace tutti::parallel {

/// The schedule of a layout, a name for tuttiScheduleCreate.
inline const char* scheduleOf(const tuttiLayout_t& l) { return l.chunks > 1 ? "interleaved" : "1f1b"; }
/// As many as fill the pipeline, where the layout does not say.
inline int microBatchesOf(const tuttiLayout_t& l) {
  return l.microBatches > 0 ? l.microBatches : l.chunks > 1 ? 2 * l.pp : l.pp;
}

struct PipelineFigures {
  double bubble;     // of ideal time
  int64_t messages;  // that a rank sends in a step, at most
  int inFlight;      // micro-batches whose activations a rank holds, counted per stage, at most
  int inFlightLast;  // on the last rank
};

/// Simulations that have been asked for: a search asks for each of them often.  One thread at a time.
class PipelineSimulations {
 public:
  /// backward: what it costs, in forwards.  Throws where the schedule is too large to be simulated.
  PipelineFigures of(const tuttiLayout_t& l, double backward);

 private:
  struct Simulated {
    double idle;   // of a rank in a step, in forwards of a stage and micro-batch
    int messages;  // per micro-batch
    int inFlight, inFlightLast;
  };
  static Simulated simulated(const tuttiLayout_t& l, int microBatches, double backward);

  std::map<std::tuple<int, int, int, double>, Simulated> known_;  // by ranks, chunks, micro-batches, backward
};

/// tuttiLayoutCost.
void layoutCost(const tuttiModelShape_t& m, const tuttiLayout_t& l, PipelineSimulations& pipelines,
                tuttiLayoutCost_t* cost);

}  // namespace tutti::parallel
