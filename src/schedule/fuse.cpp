#include <algorithm>
#include <span>

#include "src/schedule/liveness.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

/// Which received values become one op with the sends that pass them on.
enum class Forward : uint8_t { All, OnlyScratch };

bool onlySends(const Op& op) { return op.from.empty() && op.sources.size() == 1 && !op.hasDst && !op.direct; }

bool disjoint(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return std::none_of(a.begin(), a.end(), [&](int32_t x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

void append(std::vector<int32_t>* list, const std::vector<int32_t>& more) {
  list->insert(list->end(), more.begin(), more.end());
}

/// `next` passes on what `op` has just received, or just sent.
bool canForward(const Schedule& s, const Op& op, const Op& next, Forward forward) {
  if (!onlySends(next) || op.direct || !disjoint(op.to, next.to)) return false;
  const Chunk sent = s.memoryOf(next.sources[0]);
  if (onlySends(op)) return s.memoryOf(op.sources[0]) == sent;
  if (forward == Forward::OnlyScratch && op.to.empty() && op.dst.buffer != Buffer::Scratch) return false;
  return !op.from.empty() && op.hasDst && s.memoryOf(op.dst) == sent;
}

/// `next` accumulates one more message onto what `op` has just stored.
bool canAccumulate(const Schedule& s, const Op& op, const Op& next) {
  if (s.reproducible || !s.accumulates || op.from.empty() || !op.to.empty() || !op.hasDst) return false;
  if (next.from.empty() || next.sources.size() != 1 || !next.hasDst || !disjoint(op.from, next.from)) return false;
  const Chunk acc = s.memoryOf(op.dst);
  return s.memoryOf(next.sources[0]) == acc && s.memoryOf(next.dst) == acc && next.to.empty() &&
         op.from.size() + op.sources.size() + next.from.size() <= kMaxOperands;
}

using Message = std::span<Op>;

/// Makes one message of `next` and the last one, if each op of it goes with its counterpart.
bool fuseInto(const Schedule& s, Message last, std::span<const Op> next, Forward forward) {
  if (last.size() != next.size() || last.empty()) return false;
  const auto all = [&](const auto& can) {
    for (size_t k = 0; k < next.size(); ++k) {
      if (!can(last[k], next[k])) return false;
    }
    return true;
  };
  const bool forwards = all([&](const Op& op, const Op& more) { return canForward(s, op, more, forward); });
  if (!forwards && !all([&](const Op& op, const Op& more) { return canAccumulate(s, op, more); })) return false;
  for (size_t k = 0; k < next.size(); ++k) {
    append(&last[k].to, next[k].to);
    append(&last[k].from, next[k].from);
  }
  return true;
}

Lane fuseLane(const Schedule& s, const Lane& lane, Forward forward) {
  Lane result;
  size_t phase = 0, lastBegin = 0;
  for (size_t i = 0, end = 0; i < lane.ops.size(); i = end) {
    end = messageEnd(lane.ops, i);
    const std::span<const Op> next = std::span(lane.ops).subspan(i, end - i);
    const bool fused = fuseInto(s, std::span(result.ops).subspan(lastBegin), next, forward);
    if (!fused) {
      lastBegin = result.ops.size();
      result.ops.insert(result.ops.end(), next.begin(), next.end());
    }
    // A phase whose first op went into an op of the phase before begins behind that op.
    for (; phase < lane.phases.size() && lane.phases[phase].begin <= static_cast<int32_t>(i); ++phase) {
      result.phases.push_back({lane.phases[phase].name, static_cast<int32_t>(fused ? result.ops.size() : lastBegin)});
    }
  }
  const std::vector<OpLiveness> liveness = livenessOf(s, result);
  for (size_t i = 0; i < result.ops.size(); ++i) {
    Op& op = result.ops[i];
    if (op.hasDst && !op.to.empty() && !liveness[i].dstLive) {
      op.hasDst = false;
      op.dst = {};
    }
  }
  return result;
}

Schedule fuseLanes(const Schedule& schedule, Forward forward) {
  if (schedule.collective == Collective::Barrier) return schedule;
  Schedule result = schedule;
  for (Lane& lane : result.lanes) lane = fuseLane(schedule, lane, forward);
  result.slotsNeeded = std::max(schedule.slotsNeeded, 2);
  return result;
}

}  // namespace

Schedule fuse(const Schedule& schedule) { return fuseLanes(schedule, Forward::All); }
Schedule fuseForDirect(const Schedule& schedule) { return fuseLanes(schedule, Forward::OnlyScratch); }

}  // namespace tutti
