#include <algorithm>

#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

/// An op and where it stood before.
struct Placed {
  Op op;
  size_t index;
};

bool sends(const Op& op) { return !op.to.empty(); }

/// Only passes a chunk on: has nothing to wait for but room.  (A token's meaning is its place among the ops.)
bool sendsAhead(const Op& op) { return sends(op) && op.from.empty() && !op.hasDst && !op.token; }

bool writesSourceOf(const Schedule& s, const Op& writer, const Op& reader) {
  return writer.hasDst && std::any_of(reader.sources.begin(), reader.sources.end(), [&](const Chunk& source) {
           return s.memoryOf(source) == s.memoryOf(writer.dst);
         });
}

std::vector<Op> hoist(const Schedule& s, const std::vector<Op>& ops, size_t ahead) {
  std::vector<Placed> placed;
  std::vector<size_t> run;  // where the sends to the current destination stood, in order
  std::vector<int32_t> destination;
  for (size_t i = 0; i < ops.size(); ++i) {
    size_t at = placed.size();
    if (sends(ops[i])) {
      if (ops[i].to != destination) run.clear();
      destination = ops[i].to;
      if (sendsAhead(ops[i]) && !run.empty()) {
        const size_t bound = run[run.size() - std::min(ahead, run.size())];
        while (at > 0 && placed[at - 1].index > bound && !sends(placed[at - 1].op) &&
               !writesSourceOf(s, placed[at - 1].op, ops[i])) {
          --at;
        }
      }
      run.push_back(i);
    }
    placed.insert(placed.begin() + static_cast<std::ptrdiff_t>(at), {ops[i], i});
  }
  std::vector<Op> result;
  for (Placed& p : placed) result.push_back(std::move(p.op));
  return result;
}

}  // namespace

Schedule hoistSends(const Schedule& schedule, int slots) {
  if (slots <= schedule.slotsNeeded) return schedule;
  Schedule result = schedule;
  for (Lane& lane : result.lanes) {
    std::vector<Op> ops;
    for (size_t p = 0; p <= lane.phases.size(); ++p) {  // phase by phase, so that phases keep their ops
      const size_t begin = p == 0 ? 0 : static_cast<size_t>(lane.phases[p - 1].begin);
      const size_t end = p == lane.phases.size() ? lane.ops.size() : static_cast<size_t>(lane.phases[p].begin);
      const std::vector<Op> part(lane.ops.begin() + static_cast<std::ptrdiff_t>(begin),
                                 lane.ops.begin() + static_cast<std::ptrdiff_t>(end));
      for (Op& op : hoist(schedule, part, static_cast<size_t>(slots - schedule.slotsNeeded))) {
        ops.push_back(std::move(op));
      }
    }
    lane.ops = std::move(ops);
  }
  result.slotsNeeded = slots;
  return result;
}

}  // namespace tutti
