#include "src/exec/point_to_point.hpp"

#include <algorithm>

namespace tutti {

bool PointToPointRun::blockedByEarlier(size_t index) const {
  for (size_t i = 0; i < index; ++i) {
    if (!ops_[i].done && ops_[i].op.channel == ops_[index].op.channel && ops_[i].op.isSend == ops_[index].op.isSend) {
      return true;
    }
  }
  return false;
}

Result<Progress> PointToPointRun::step() {
  bool moved = false;
  bool left = false;
  waitingOn_ = -1;
  for (size_t i = 0; i < ops_.size(); ++i) {
    State& state = ops_[i];
    if (state.done) continue;
    if (!blockedByEarlier(i)) {
      const size_t before = state.moved;
      TUTTI_ASSIGN(state.done, advance(&state));
      moved = moved || state.done || state.moved != before;
    }
    if (!state.done) {
      left = true;
      if (waitingOn_ < 0) waitingOn_ = state.op.peer;
    }
  }
  return !left ? Progress::Done : moved ? Progress::Moved : Progress::Blocked;
}

Result<bool> PointToPointRun::advance(State* state) {
  const PointToPointOp& op = state->op;
  while (state->moved < op.bytes) {
    const size_t bytes = std::min(op.sliceBytes, op.bytes - state->moved);
    bool gone = false;
    if (op.isSend) {
      TUTTI_ASSIGN(gone, sendSlice(state, bytes));
    } else {
      TUTTI_ASSIGN(gone, op.channel->receive(op.dst + state->moved, {bytes, op.call, 2 * op.bytes}));
    }
    if (!gone) return false;
    state->moved += bytes;
  }
  if (state->ticket == 0) return true;
  return op.channel->taken(state->ticket);
}

Result<bool> PointToPointRun::sendSlice(State* state, size_t bytes) {
  const std::byte* data = state->op.source + state->moved;
  const PointToPointOp& op = state->op;
  const auto lends = [&] {
    return (op.lendsAny && bytes >= kLeastPulledBytes && op.channel->canOffer(data, bytes)) ||
           (bytes >= op.leastMappedBytes && op.channel->offersMapped(data, bytes));
  };
  if (lends()) {
    TUTTI_ASSIGN(const Ticket ticket, op.channel->offer(data, bytes, op.call));
    if (ticket != 0) state->ticket = ticket;  // tickets are taken in order: the last one stands for all
    return ticket != 0;
  }
  return op.channel->send(data, bytes, op.call);
}

void PointToPointRun::abandon() {
  for (const State& state : ops_) {
    if (state.ticket != 0 && !state.done) state.op.channel->withdraw();
  }
}

}  // namespace tutti
