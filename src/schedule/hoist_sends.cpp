#include <algorithm>
#include <span>

#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

/// The ops of a message, and where it stood before.
struct Placed {
  std::span<const Op> ops;
  size_t index;
};

bool sends(const Op& op) { return !op.to.empty(); }
bool sends(const Placed& placed) { return sends(placed.ops.front()); }

/// Only passes a chunk on: has nothing to wait for but room.  (A token's meaning is its place among the ops.)
bool sendsAhead(const Op& op) { return sends(op) && op.from.empty() && !op.hasDst && !op.token; }

bool writesSourceOf(const Schedule& s, const Op& writer, const Op& reader) {
  return writer.hasDst && std::any_of(reader.sources.begin(), reader.sources.end(), [&](const Chunk& source) {
           return s.memoryOf(source) == s.memoryOf(writer.dst);
         });
}

bool writesSourceOf(const Schedule& s, std::span<const Op> writers, std::span<const Op> readers) {
  return std::any_of(writers.begin(), writers.end(), [&](const Op& writer) {
    return std::any_of(readers.begin(), readers.end(), [&](const Op& r) { return writesSourceOf(s, writer, r); });
  });
}

std::vector<Op> hoist(const Schedule& s, const std::vector<Op>& ops, size_t ahead) {
  std::vector<Placed> placed;
  std::vector<size_t> run;  // where the sends to the current destination stood, in order
  std::vector<int32_t> destination;
  for (size_t i = 0, end = 0; i < ops.size(); i = end) {
    end = messageEnd(ops, i);
    const Placed next{std::span(ops).subspan(i, end - i), i};
    size_t at = placed.size();
    if (sends(next)) {
      if (ops[i].to != destination) run.clear();
      destination = ops[i].to;
      if (sendsAhead(ops[i]) && !run.empty()) {
        const size_t bound = run[run.size() - std::min(ahead, run.size())];
        while (at > 0 && placed[at - 1].index > bound && !sends(placed[at - 1]) &&
               !writesSourceOf(s, placed[at - 1].ops, next.ops)) {
          --at;
        }
      }
      run.push_back(i);
    }
    placed.insert(placed.begin() + static_cast<std::ptrdiff_t>(at), next);
  }
  std::vector<Op> result;
  for (const Placed& p : placed) result.insert(result.end(), p.ops.begin(), p.ops.end());
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
