#include "src/schedule/liveness.hpp"

#include "src/schedule/chunk_numbers.hpp"

namespace tutti {

std::vector<OpLiveness> livenessOf(const Schedule& schedule, const Lane& lane) {
  const ChunkNumbers number(schedule);
  std::vector<bool> live(number.size(), false);
  for (int c = 0; c < schedule.outputChunks(); ++c) live[number.of(out(c))] = true;
  std::vector<OpLiveness> result(lane.ops.size());
  for (size_t i = lane.ops.size(); i-- > 0;) {  // from the end: what is live before an op follows from what is after
    const Op& op = lane.ops[i];
    if (op.hasDst) {
      result[i].dstLive = live[number.of(op.dst)];
      live[number.of(op.dst)] = false;
    }
    for (const Chunk source : op.sources) result[i].sourceDies.push_back(!live[number.of(source)]);
    for (const Chunk source : op.sources) live[number.of(source)] = true;
  }
  return result;
}

}  // namespace tutti
