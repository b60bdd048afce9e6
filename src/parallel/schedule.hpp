// Pipeline schedules as lists of actions.
#pragma once

#include <string>
#include <vector>

#include "tutti/parallel/pp.h"

namespace tutti::parallel {

struct PipelineSchedule {
  int nRanks = 0, stages = 0, microBatches = 0;
  std::vector<int> rankOf;                          // of each stage
  std::vector<std::vector<tuttiAction_t>> actions;  // of each rank

  bool isLast(int stage) const { return stage + 1 == stages; }
  /// Where an action's message comes from or goes to; -1 for a computation.
  int peerOf(const tuttiAction_t& a) const;
};

PipelineSchedule namedSchedule(const std::string& name, int nRanks, int chunks, int microBatches);
/// As few micro-batches as make a 1f1b or interleaved schedule wait as long and hold as much on every rank as that many
/// do: the others come in the middle, where no rank waits.
int fewerMicroBatches(int nRanks, int chunks, int microBatches);
PipelineSchedule parseSchedule(const std::string& csv);
std::string scheduleCsv(const PipelineSchedule& s);
std::string actionText(const tuttiAction_t& a);
/// Puts sends behind and receives before the computations of a list that has none.
void addMessages(PipelineSchedule& s);
/// "" or what is wrong.
std::string validate(const PipelineSchedule& s, int buffers);
/// The most micro-batches, counted per stage, of which each rank holds activations at once.
std::vector<int> inFlight(const PipelineSchedule& s);
/// Fills in the results.
void simulate(const PipelineSchedule& s, tuttiSimulation_t& simulation);

}  // namespace tutti::parallel
