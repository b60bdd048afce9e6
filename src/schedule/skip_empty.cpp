#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

/// The chunk whose size the op's value has, as executors have it; -1: unknown.
int32_t chunkOf(const Op& op) {
  if (op.hasDst && op.dst.buffer != Buffer::Scratch) return op.dst.index;
  for (const Chunk& source : op.sources) {
    if (source.buffer != Buffer::Scratch) return source.index;
  }
  return op.origin;
}

}  // namespace

std::vector<Schedule> skipEmpty(const std::vector<Schedule>& schedules, size_t elements) {
  std::vector<Schedule> result = markOrigins(schedules);
  for (Schedule& schedule : result) {
    for (Lane& lane : schedule.lanes) {
      std::vector<Op> left;
      for (size_t i = 0, end = 0; i < lane.ops.size(); i = end) {
        end = messageEnd(lane.ops, i);
        bool joined = false;
        for (size_t k = i; k < end; ++k) {
          Op& op = lane.ops[k];
          const int32_t chunk = op.token ? -1 : chunkOf(op);
          if (chunk >= 0 && static_cast<size_t>(chunk) >= elements) continue;
          op.joined = joined;
          joined = true;
          left.push_back(op);
        }
      }
      lane.ops = std::move(left);
      lane.phases.clear();
    }
  }
  return result;
}

}  // namespace tutti
