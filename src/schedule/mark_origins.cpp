#include "src/schedule/chunk_numbers.hpp"
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
  std::vector<ChunkNumbers> numbers;
  std::vector<std::vector<int32_t>> held;  // origin by chunk, of each rank
  int slots = 1;
  for (const Schedule& s : schedules) {
    numbers.emplace_back(s);
    held.emplace_back(numbers.back().size(), -1);
    for (int c = 0; c < s.inputChunks(); ++c) held.back()[numbers.back().of(in(c))] = originOfInput(s, c);
    slots = std::max(slots, s.slotsNeeded);
  }
  const size_t nLanes = schedules.empty() ? 0 : schedules.front().lanes.size();
  for (size_t lane = 0; lane < nLanes; ++lane) {
    LaneMachine machine(schedules, static_cast<int>(lane), slots);
    (void)machine.run([&](int rank, int index, std::span<const int32_t> messages) {
      const auto r = static_cast<size_t>(rank);
      Op& op = result[r].lanes[lane].ops[static_cast<size_t>(index)];
      if (op.token) return 0;
      op.origin = op.sources.empty() ? messages[0] : held[r][numbers[r].of(op.sources[0])];
      if (op.hasDst) held[r][numbers[r].of(op.dst)] = op.origin;
      return op.origin;
    });
  }
  return result;
}

}  // namespace tutti
