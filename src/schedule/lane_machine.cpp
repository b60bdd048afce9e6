#include "src/schedule/lane_machine.hpp"

#include <algorithm>

#include "src/base/assert.hpp"
#include "src/base/text.hpp"

namespace tutti {

LaneMachine::LaneMachine(const std::vector<Schedule>& schedules, int lane, int slots)
    : schedules_(schedules), lane_(lane), slots_(slots), nRanks_(static_cast<int>(schedules.size())) {
  TUTTI_ASSERT_CMP(slots, >=, 1);
  ranks_.resize(schedules.size());
  fifoOf_.assign(schedules.size() * schedules.size(), -1);
  for (int r = nRanks_ - 1; r >= 0; --r) runnable_.push_back(r);  // a stack: rank 0 first
}

int32_t LaneMachine::fifo(int from, int to) {
  int32_t& index = fifoSlot(from, to);
  if (index < 0) {
    index = static_cast<int32_t>(fifos_.size());
    fifos_.emplace_back();
    messages_.resize(messages_.size() + static_cast<size_t>(slots_));
  }
  return index;
}

bool LaneMachine::ready(int rank, std::span<const Op> ops) {
  RankState& self = state(rank);
  const Op& op = ops.front();
  const auto waitFor = [&self](Wait wait, int32_t what) {
    self.wait = wait;
    self.waitFor = what;
    return false;
  };
  for (const int32_t peer : op.from) {
    if (fifos_[static_cast<size_t>(fifo(peer, rank))].count == 0) return waitFor(Wait::Message, peer);
  }
  for (const int32_t peer : op.to) {
    if (fifos_[static_cast<size_t>(fifo(rank, peer))].count == slots_) return waitFor(Wait::Room, peer);
  }
  return std::none_of(ops.begin(), ops.end(), [&](const Op& part) { return borrowed(rank, part); });
}

/// Whether a message of this rank that has not been taken lies where the op writes; sets what the rank waits for.
bool LaneMachine::borrowed(int rank, const Op& op) {
  if (!op.hasDst) return false;
  RankState& self = state(rank);
  const Schedule& schedule = schedules_[static_cast<size_t>(rank)];
  for (const int32_t borrow : self.borrows) {
    const Op& send = ops(rank)[static_cast<size_t>(borrows_[static_cast<size_t>(borrow)].op)];
    for (const Chunk source : send.sources) {
      if (schedule.memoryOf(source) != schedule.memoryOf(op.dst)) continue;
      self.wait = Wait::Direct;
      self.waitFor = borrow;
      return true;
    }
  }
  return false;
}

void LaneMachine::wakeIf(int rank, Wait wait, int32_t waitFor) {
  RankState& other = state(rank);
  if (other.wait != wait || other.waitFor != waitFor) return;
  other.wait = Wait::Nothing;
  runnable_.push_back(rank);
}

bool LaneMachine::take(int rank, std::span<const Op> ops) {
  taken_.clear();
  for (const int32_t peer : ops.front().from) {
    const int32_t index = fifo(peer, rank);
    Fifo& queue = fifos_[static_cast<size_t>(index)];
    const Message taken = message(index, queue.head);
    queue.head = (queue.head + 1) % slots_;
    --queue.count;
    taken_.push_back(taken.first);
    if (taken.chunks != static_cast<int32_t>(ops.size())) {
      misfit_ = cat("rank ", rank, " lane ", lane_, " op ", state(rank).pc, " (", toString(ops.front()), ") takes ",
                    ops.size(), " chunk(s) from rank ", peer, ", whose message has ", taken.chunks);
      return false;
    }
    if (taken.borrow >= 0 && --borrows_[static_cast<size_t>(taken.borrow)].untaken == 0) {
      std::erase(state(peer).borrows, taken.borrow);
      wakeIf(peer, Wait::Direct, taken.borrow);
    }
    wakeIf(peer, Wait::Room, rank);
  }
  return true;
}

void LaneMachine::post(int rank, std::span<const Op> ops, size_t first) {
  const Op& op = ops.front();
  if (op.to.empty()) return;
  Message posted{static_cast<int32_t>(ops.size()), first, -1};
  if (op.direct) {
    posted.borrow = static_cast<int32_t>(borrows_.size());
    borrows_.push_back({rank, state(rank).pc, static_cast<int32_t>(op.to.size())});
    state(rank).borrows.push_back(posted.borrow);
  }
  for (const int32_t peer : op.to) {
    const int32_t index = fifo(rank, peer);
    Fifo& queue = fifos_[static_cast<size_t>(index)];
    message(index, queue.head + queue.count) = posted;
    ++queue.count;
    wakeIf(peer, Wait::Message, rank);
  }
}

bool LaneMachine::breakDirectWait(int* rank, int* opIndex) {
  for (int r = 0; r < nRanks_; ++r) {
    if (state(r).wait != Wait::Direct) continue;
    const int32_t index = state(r).waitFor;
    const Borrow& borrow = borrows_[static_cast<size_t>(index)];
    *rank = borrow.rank;
    *opIndex = borrow.op;
    std::erase(state(r).borrows, index);
    wakeIf(r, Wait::Direct, index);
    return true;
  }
  return false;
}

std::string LaneMachine::describeWait(int rank) const {
  const RankState& self = state(rank);
  std::string text = cat("rank ", rank, " lane ", lane_, " op ", self.pc, " (",
                         toString(ops(rank)[static_cast<size_t>(self.pc)]), ") waits ");
  switch (self.wait) {
    case Wait::Message: return text + cat("for a message from rank ", self.waitFor);
    case Wait::Room: return text + cat("for room in the FIFO to rank ", self.waitFor);
    case Wait::Direct:
      return text + cat("until its direct op ", borrows_[static_cast<size_t>(self.waitFor)].op, " has been taken");
    case Wait::Nothing: break;
  }
  return text + "for nothing";
}

std::string LaneMachine::describeDeadlock() const {
  if (!misfit_.empty()) return misfit_;
  constexpr int kMaxShown = 8;
  std::vector<char> seen(ranks_.size(), 0);
  int rank = 0;
  while (rank < nRanks_ && static_cast<size_t>(state(rank).pc) == ops(rank).size()) ++rank;
  if (rank == nRanks_) return {};
  std::string text = "deadlock: ";
  for (int shown = 0;; ++shown) {
    text += describeWait(rank);
    seen[static_cast<size_t>(rank)] = 1;
    int next = state(rank).waitFor;
    if (state(rank).wait == Wait::Direct) {
      const Borrow& borrow = borrows_[static_cast<size_t>(next)];
      next = ops(borrow.rank)[static_cast<size_t>(borrow.op)].to.front();
    }
    if (static_cast<size_t>(state(next).pc) == ops(next).size()) return text + cat("; rank ", next, " has finished");
    if (seen[static_cast<size_t>(next)]) return text + (shown == 0 ? "" : cat("; and so round from rank ", next));
    if (shown == kMaxShown) return text + "; and so on";
    text += "; ";
    rank = next;
  }
}

std::string LaneMachine::describeLeftover() const {
  for (int from = 0; from < nRanks_; ++from) {
    for (int to = 0; to < nRanks_; ++to) {
      const int32_t index = fifoOf_[static_cast<size_t>(from) * static_cast<size_t>(nRanks_) + static_cast<size_t>(to)];
      if (index >= 0 && fifos_[static_cast<size_t>(index)].count > 0) {
        return cat("lane ", lane_, ": ", fifos_[static_cast<size_t>(index)].count, " message(s) from rank ", from,
                   " to rank ", to, " left at the end");
      }
    }
  }
  return {};
}

}  // namespace tutti
