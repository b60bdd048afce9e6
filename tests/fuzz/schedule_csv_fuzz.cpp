// Any bytes as the CSV of a pipeline schedule: refused with a sentence, or a schedule that writes itself the same way
// again, is found sound, and can be simulated.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/require.hpp"
#include "tutti/parallel/pp.h"

using tutti::test::require;

namespace {

constexpr int kMostSimulated = 1 << 16;  // stages x micro-batches, to keep a run short

void use(tuttiSchedule_t schedule) {
  const char* text = nullptr;
  require(tuttiScheduleCsv(schedule, &text) == tuttiSuccess);
  const std::string csv = text;
  tuttiSchedule_t again = nullptr;
  require(tuttiScheduleParse(&again, csv.c_str()) == tuttiSuccess);
  require(tuttiScheduleCsv(again, &text) == tuttiSuccess && csv == text);
  require(tuttiScheduleDestroy(again) == tuttiSuccess);
  int nRanks = 0, stages = 0, microBatches = 0;
  require(tuttiScheduleShape(schedule, &nRanks, &stages, &microBatches) == tuttiSuccess);
  require(nRanks > 0 && stages > 0 && microBatches > 0);
  for (int stage = 0; stage < stages; ++stage) {
    int rank = -1;
    require(tuttiScheduleRankOf(schedule, stage, &rank) == tuttiSuccess && rank >= 0 && rank < nRanks);
  }
  if (static_cast<int64_t>(stages) * microBatches > kMostSimulated) return;
  const char* complaint = nullptr;
  require(tuttiScheduleValidate(schedule, 1, &complaint) == tuttiSuccess && complaint != nullptr);
  tuttiSimulation_t simulation = TUTTI_SIMULATION_INITIALIZER;
  require(tuttiScheduleSimulate(schedule, &simulation) == tuttiSuccess);
  require(simulation.bubbleOverTotal >= 0 && simulation.bubbleOverTotal <= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string csv(reinterpret_cast<const char*>(data), size);
  tuttiSchedule_t schedule = nullptr;
  if (tuttiScheduleParse(&schedule, csv.c_str()) == tuttiSuccess) {
    use(schedule);
  } else {
    require(schedule == nullptr && *tuttiParallelGetLastError() != '\0');
  }
  return tuttiScheduleDestroy(schedule) == tuttiSuccess ? 0 : 1;
}
