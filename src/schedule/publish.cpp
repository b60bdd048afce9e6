#include "src/schedule/passes.hpp"

namespace tutti {

Schedule publish(const Schedule& schedule) {
  Schedule result = schedule;
  result.published = true;
  for (Lane& lane : result.lanes) {
    std::vector<Op> ops;
    std::vector<Phase> phases;
    size_t phase = 0;
    bool sent = false;
    for (size_t i = 0; i < lane.ops.size(); ++i) {
      for (; phase < lane.phases.size() && lane.phases[phase].begin <= static_cast<int32_t>(i); ++phase) {
        phases.push_back({lane.phases[phase].name, static_cast<int32_t>(ops.size())});
      }
      Op op = lane.ops[i];
      const bool sends = !op.to.empty();
      op.to.clear();
      if (sends && !sent) op.to = {kEveryone};
      sent = sent || sends;
      if (!op.to.empty() || !op.from.empty() || op.hasDst) ops.push_back(std::move(op));
    }
    lane.ops = std::move(ops);
    lane.phases = std::move(phases);
  }
  return result;
}

}  // namespace tutti
