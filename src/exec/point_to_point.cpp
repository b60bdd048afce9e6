#include "src/exec/point_to_point.hpp"

#include <algorithm>

namespace tutti {
bool PointToPointRun::blockedByEarlier(size_t index) const {
  for (size_t i = 0; i < index; ++i) {
    const State& earlier = ops_[i];
    if (earlier.done || earlier.op.endpoint != ops_[index].op.endpoint) continue;
    if (earlier.op.isSend != ops_[index].op.isSend) continue;
    if (!earlier.op.posts || earlier.moved < earlier.op.bytes) return true;
  }
  return false;
}

bool PointToPointRun::doneAtOnce(const PointToPointOp& op) {
  const bool cutOrLent = op.bytes > op.sliceBytes || op.bytes >= kLeastPulledBytes || op.bytes >= op.leastMappedBytes;
  if (op.bytes == 0 || cutOrLent) return false;
  const Result<bool> done = op.isSend ? op.endpoint->send(op.source, op.bytes, op.call)
                                      : op.endpoint->receive(op.dst, {op.bytes, op.call, 2 * op.bytes});
  return done.ok() && *done;
}

Result<Progress> PointToPointRun::step() {
  bool moved = false;
  bool left = false;
  waitingOn_ = -1;
  const bool small = ops_.size() == 1 && ops_[0].op.bytes <= kMostUnpostedBytes;  // has nothing to go beside
  for (size_t i = 0; i < ops_.size(); ++i) {
    State& state = ops_[i];
    if (state.done) continue;
    if (!blockedByEarlier(i)) {
      const size_t before = state.moved + state.tested;
      const Result<bool> done = state.op.posts && !small ? advancePosted(i) : advance(&state);
      if (!done.ok()) {
        waitsIn(state.op);
        waiting_.seen = state.op.isSend ? Fingerprint{} : state.op.endpoint->seen();
        return done.status();
      }
      state.done = *done;
      moved = moved || state.done || state.moved + state.tested != before;
    }
    if (!state.done) {
      left = true;
      if (waitingOn_ < 0) waitsIn(state.op);
    }
  }
  return !left ? Progress::Done : moved ? Progress::Moved : Progress::Blocked;
}

void PointToPointRun::waitsIn(const PointToPointOp& op) {
  waitingOn_ = op.peer;
  waiting_ = {op.peer, op.isSend, op.call, {}};
}

Result<bool> PointToPointRun::advance(State* state) {
  const PointToPointOp& op = state->op;
  if (op.chooser != nullptr) choose(state);
  while (state->moved < op.bytes) {
    const size_t bytes = std::min(op.sliceBytes, op.bytes - state->moved);
    bool gone = false;
    if (op.isSend) {
      TUTTI_ASSIGN(gone, state->beganNs != 0 ? sendTimed(state, bytes) : sendSlice(state, bytes));
    } else {
      TUTTI_ASSIGN(gone, op.endpoint->receive(op.dst + state->moved, {bytes, op.call, 2 * op.bytes}));
    }
    if (!gone) return false;
    state->moved += bytes;
  }
  if (state->request == 0) return true;
  return op.endpoint->test(state->request);
}

Result<bool> PointToPointRun::advancePosted(size_t index) {
  State* const state = &ops_[index];
  const PointToPointOp& op = state->op;
  posted_.resize(ops_.size());
  std::vector<Request>& posted = posted_[index];
  while (state->moved < op.bytes) {
    const size_t bytes = std::min(op.sliceBytes, op.bytes - state->moved);
    TUTTI_ASSIGN(const Request request,
                 op.isSend ? op.endpoint->postSend(op.source + state->moved, bytes, op.call)
                           : op.endpoint->postReceive(op.dst + state->moved, {bytes, op.call, 2 * op.bytes}));
    if (request == 0) break;
    posted.push_back(request);
    state->moved += bytes;
  }
  for (; state->tested < posted.size(); ++state->tested) {
    TUTTI_ASSIGN(const bool done, op.endpoint->test(posted[state->tested]));
    if (!done) return false;
  }
  return state->moved == op.bytes;
}

/// Once, when the send begins.
void PointToPointRun::choose(State* state) {
  const SendProtocolChooser::Choice choice = state->op.chooser->choose(*state->op.endpoint, state->op.source);
  state->op.chooser = nullptr;
  state->op.lendsAny = choice.lends;
  state->beganNs = choice.beganNs;
}

Result<bool> PointToPointRun::sendTimed(State* state, size_t bytes) {
  state->op.endpoint->timeSends(state->beganNs);
  Result<bool> gone = sendSlice(state, bytes);
  state->op.endpoint->timeSends(0);
  return gone;
}

Result<bool> PointToPointRun::sendSlice(State* state, size_t bytes) {
  const std::byte* data = state->op.source + state->moved;
  const PointToPointOp& op = state->op;
  const auto lends = [&] {
    return (op.lendsAny && bytes >= kLeastPulledBytes && op.endpoint->canOffer(data, bytes)) ||
           (bytes >= op.leastMappedBytes && op.endpoint->offersMapped(data, bytes));
  };
  if (lends()) {
    TUTTI_ASSIGN(const Request request, op.endpoint->postSend(data, bytes, op.call));
    if (request != 0) state->request = request;  // done in order: the last one stands for all
    return request != 0;
  }
  return op.endpoint->send(data, bytes, op.call);
}

void PointToPointRun::abandon() {
  for (size_t i = 0; i < ops_.size(); ++i) {
    const bool posted = i < posted_.size() && !posted_[i].empty();
    if (ops_[i].done) continue;
    if (ops_[i].request != 0 || posted) {
      ops_[i].op.endpoint->cancel();
    } else if (!ops_[i].op.isSend) {
      ops_[i].op.endpoint->release();
    }
  }
}

}  // namespace tutti
