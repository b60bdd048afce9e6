#include "src/schedule/chunk_values.hpp"
#include "src/schedule/lane_machine.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

/// The chunk, of the larger of the collective's buffers, whose size an input chunk has; see Op::origin.
int32_t originOfInput(const Schedule& schedule, int chunk) {
  const Geometry& g = geometryOf(schedule.collective);
  if (g.input.content == Content::Block) return schedule.rank;
  return g.output.content == Content::Blocks ? schedule.rank * schedule.nRanks + chunk : chunk;
}

}  // namespace

std::vector<Schedule> markOrigins(const std::vector<Schedule>& schedules) {
  std::vector<Schedule> result = schedules;
  ChunkValues origins(schedules, -1);
  int slots = 1;
  for (const Schedule& s : schedules) {
    for (int c = 0; c < s.inputChunks(); ++c) origins.of(s, in(c)) = originOfInput(s, c);
    slots = std::max(slots, s.slotsNeeded);
  }
  const size_t nLanes = schedules.empty() ? 0 : schedules.front().lanes.size();
  for (size_t lane = 0; lane < nLanes; ++lane) {
    LaneMachine machine(schedules, static_cast<int>(lane), slots);
    (void)machine.run([&](int rank, int index, std::span<const int32_t> messages) {
      Op& op = result[static_cast<size_t>(rank)].lanes[lane].ops[static_cast<size_t>(index)];
      if (op.token) return 0;
      op.origin = op.sources.empty() ? messages[0] : origins.of(rank, op.sources[0]);
      if (op.hasDst) origins.of(rank, op.dst) = op.origin;
      return op.origin;
    });
  }
  return result;
}

}  // namespace tutti
