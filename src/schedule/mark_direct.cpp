#include <algorithm>
#include <utility>

#include "src/schedule/lane_machine.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

bool readableInPlace(const Op& op) {
  return op.from.empty() && !op.hasDst && !op.token && !op.to.empty() && op.sources.size() == 1 &&
         op.sources[0].buffer != Buffer::Scratch;
}

}  // namespace

// Everything is marked, and then all ranks are run.  When they get stuck and one of them waits until its direct message
// has been taken, that message loses its mark and the run goes on: it is the same run as if it had never been marked.
// More slots than in this run never make a deadlock.
std::vector<Schedule> markDirect(const std::vector<Schedule>& schedules) {
  std::vector<Schedule> result = schedules;
  int slots = 1;
  for (Schedule& schedule : result) {
    slots = std::max(slots, schedule.slotsNeeded);
    for (Lane& lane : schedule.lanes) {
      for (size_t i = 0; i < lane.ops.size(); i = messageEnd(lane.ops, i)) {
        const bool alone = messageEnd(lane.ops, i) == i + 1;  // a message of several chunks is gathered by its sender
        lane.ops[i].direct = alone && readableInPlace(lane.ops[i]);
      }
    }
  }
  const size_t nLanes = schedules.empty() ? 0 : schedules.front().lanes.size();
  for (size_t lane = 0; lane < nLanes; ++lane) {
    LaneMachine machine(result, static_cast<int>(lane), slots);
    const auto step = [](int, int, std::span<const int32_t>) { return 0; };
    int rank = 0, op = 0;
    std::vector<std::pair<int, int>> unmarked;  // applied afterwards: the machine looks at the schedules
    while (!machine.run(step) && machine.breakDirectWait(&rank, &op)) unmarked.emplace_back(rank, op);
    for (const auto& [r, i] : unmarked) {
      result[static_cast<size_t>(r)].lanes[lane].ops[static_cast<size_t>(i)].direct = false;
    }
  }
  return result;
}

}  // namespace tutti
