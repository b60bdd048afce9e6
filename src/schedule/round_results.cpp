#include "src/schedule/chunk_numbers.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {

Schedule roundResults(Schedule schedule) {
  const ChunkNumbers number(schedule);
  for (Lane& lane : schedule.lanes) {
    std::vector<int32_t> madeBy(number.size(), -1);  // the op that reduced what a chunk holds; -1: none of this lane
    for (size_t i = 0; i < lane.ops.size(); ++i) {
      const Op& op = lane.ops[i];
      if (!op.hasDst) continue;
      const bool copies = op.from.empty() && op.sources.size() == 1;
      const int32_t by = op.reduces() ? static_cast<int32_t>(i) : copies ? madeBy[number.of(op.sources[0])] : -1;
      madeBy[number.of(op.dst)] = by;
    }
    for (int c = 0; c < schedule.outputChunks(); ++c) {
      const int32_t by = madeBy[number.of(out(c))];
      if (by >= 0) lane.ops[static_cast<size_t>(by)].rounds = true;
    }
  }
  return schedule;
}

}  // namespace tutti
