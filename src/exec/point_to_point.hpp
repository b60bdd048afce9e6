// Sends and receives between pairs of ranks: all pairs and directions side by side, in order within one.
#pragma once

#include <cstdint>
#include <vector>

#include "src/exec/plan.hpp"
#include "src/exec/task.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// Which protocol the sends of one kind go by, to find the faster one.
class SendProtocolChooser {
 public:
  struct Choice {
    bool lends = false;
    int64_t beganNs = 0;  // for Endpoint::timeSends()
  };
  virtual ~SendProtocolChooser() = default;
  /// For a send from `data` by `endpoint`, which begins now.  By the thread that uses the endpoint.
  virtual Choice choose(const Endpoint& endpoint, const std::byte* data) = 0;
};

struct PointToPointOp {
  Endpoint* endpoint = nullptr;
  int peer = 0;
  bool isSend = false;
  const std::byte* source = nullptr;
  std::byte* dst = nullptr;
  size_t bytes = 0;
  size_t sliceBytes = 0;  // the most that one message carries, the same on both sides
  /// Whether to lend memory that the receiver can read but has not mapped, and from how many bytes on memory that it
  /// has mapped.
  bool lendsAny = true;
  SendProtocolChooser* chooser = nullptr;  // of a send: says lendsAny when it begins; null: lendsAny stays
  size_t leastMappedBytes = kLeastMappedBytes;
  bool posts = false;  // messages are posted ahead (LinkProfile::mostRequests), from memory that the endpoint takes
  Fingerprint call;
  uint64_t record = 0,
           recordNumber = 0;  // the caller's own: where it keeps record of it, until it has heard of its end
};

/// One thread at a time.  Ops of one peer and direction run in the order of add(); those that are posted, all at once.
class PointToPointRun : public Task {
 public:
  void clear() {
    ops_.clear();
    if (!posted_.empty()) [[unlikely]]
      posted_.clear();
  }
  /// Memory for so many: add() then takes none.
  void reserve(size_t nOps) { ops_.reserve(nOps); }
  bool empty() const { return ops_.empty(); }
  size_t size() const { return ops_.size(); }
  bool isDone(size_t index) const { return ops_[index].done; }
  PointToPointOp& op(size_t index) { return ops_[index].op; }
  void add(const PointToPointOp& op) {
    ops_.push_back({op, 0, 0, 0, 0, false});
    if (op.posts) [[unlikely]]
      ops_.back().op.posts = op.endpoint->takes(op.isSend ? op.source : op.dst, op.bytes);
  }

  /// The first try of a short message that goes alone, which often is all of it: then there is nothing to add and to
  /// step.  False, an error included, which the endpoint gives again: add it.
  static bool doneAtOnce(const PointToPointOp& op);

  Result<Progress> step() override;
  int waitingOn() const override { return waitingOn_; }
  const WaitingMessage* waitingMessage() const override { return waitingOn_ >= 0 ? &waiting_ : nullptr; }
  void abandon() override;

 private:
  /// Nothing that takes time to make or to destroy: the shortest messages take as long.
  struct State {
    PointToPointOp op;
    size_t moved;     // bytes that are gone, have come, or are posted
    Request request;  // of the direct message on its way, 0 if none
    int64_t beganNs;  // of a send that is timed, else 0
    size_t tested;    // of those that are posted, how many are done
    bool done;
  };
  Result<bool> advance(State* state);
  static void choose(State* state);
  static Result<bool> sendSlice(State* state, size_t bytes);
  static Result<bool> sendTimed(State* state, size_t bytes);
  Result<bool> advancePosted(size_t index);
  bool blockedByEarlier(size_t index) const;

  std::vector<State> ops_;
  std::vector<std::vector<Request>> posted_;  // by op; empty where none posts
  void waitsIn(const PointToPointOp& op);
  int waitingOn_ = -1;
  WaitingMessage waiting_;  // where that is a rank
};

}  // namespace tutti
