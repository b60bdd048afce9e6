// Runs one lane of all ranks' schedules symbolically: FIFOs with a bounded number of messages, and who waits for whom.
// What a message means is the caller's business: the machine moves 32-bit payloads, one for each chunk of a message.
//
// An op (with those that are joined to it) runs as a whole once all its messages are there, all its FIFOs have room,
// and no direct message still borrows the chunk that it writes.  That is the most cautious way to run an op; a set of
// schedules that completes this way completes on every executor, whether it takes the messages of an op one by one or
// holds several slots at a time. Each rank runs as far as it can; messages and room wake exactly the rank that waits
// for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

class LaneMachine {
 public:
  /// The schedules must outlive the machine and name only valid peers (no rank itself, none twice in one op).
  LaneMachine(const std::vector<Schedule>& schedules, int lane, int slots);

  /// Runs all ranks to their ends or to a deadlock, or until a rank takes a message for one of another number of
  /// chunks. step(rank, op index, payloads of the messages taken) is called once per op, in an order that any real
  /// execution could have; it returns the payload of the op's messages, or kStop to end at once.  False if some rank
  /// did not reach its end; after a deadlock, run() may be called again.
  template <class Step>
  bool run(Step&& step);
  static constexpr int32_t kStop = INT32_MIN;

  /// After run() said false, for a deadlock: "rank 0 lane 1 op 2 (recv rank 1 => out[0]) waits for a message from rank
  /// 1, which ...".
  std::string describeDeadlock() const;
  /// "" or a sentence about a message that nobody took; after run() said true.
  std::string describeLeftover() const;
  /// Where a direct send is that a rank waits for, so that a deadlock might be broken by sending that message by copy;
  /// false if there is none.  The send counts as done from now on.
  bool breakDirectWait(int* rank, int* opIndex);

 private:
  enum class Wait : uint8_t { Nothing, Message, Room, Direct };
  struct Message {
    int32_t chunks = 0;
    size_t first = 0;     // in pool_, of its chunks' payloads
    int32_t borrow = -1;  // index into borrows_, of a direct message
  };
  struct Fifo {
    int32_t head = 0;
    int32_t count = 0;
  };
  struct Borrow {  // of a source chunk by a direct send
    int32_t rank;
    int32_t op;
    int32_t untaken;
  };
  struct RankState {
    int32_t pc = 0;
    Wait wait = Wait::Nothing;
    int32_t waitFor = -1;          // a peer, or for Wait::Direct an index into borrows_
    std::vector<int32_t> borrows;  // those whose messages are not all taken
  };

  const std::vector<Op>& ops(int rank) const {
    return schedules_[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane_)].ops;
  }
  RankState& state(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const RankState& state(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  int32_t& fifoSlot(int from, int to) {
    return fifoOf_[static_cast<size_t>(from) * static_cast<size_t>(nRanks_) + static_cast<size_t>(to)];
  }
  int32_t fifo(int from, int to);
  Message& message(int32_t index, int32_t position) {
    return messages_[static_cast<size_t>(index) * static_cast<size_t>(slots_) + static_cast<size_t>(position % slots_)];
  }
  bool ready(int rank, std::span<const Op> message);
  bool borrowed(int rank, const Op& op);
  /// False if a message has not as many chunks as the ops are.
  bool take(int rank, std::span<const Op> message);
  void post(int rank, std::span<const Op> message, size_t first);
  void wakeIf(int rank, Wait wait, int32_t waitFor);
  std::string describeWait(int rank) const;

  const std::vector<Schedule>& schedules_;
  const int lane_;
  const int slots_;
  const int nRanks_;
  std::vector<RankState> ranks_;
  std::vector<int32_t> fifoOf_;  // [from * nRanks + to], -1: not used yet
  std::vector<Fifo> fifos_;
  std::vector<Message> messages_;  // [fifo * slots + position]
  std::vector<Borrow> borrows_;
  std::vector<int32_t> runnable_;
  std::vector<int32_t> pool_;      // payloads of messages
  std::vector<size_t> taken_;      // by the ops in hand: where in pool_ each message begins
  std::vector<int32_t> payloads_;  // of the op in hand
  std::string misfit_;
};

template <class Step>
bool LaneMachine::run(Step&& step) {
  while (!runnable_.empty()) {
    const int rank = runnable_.back();
    runnable_.pop_back();
    const std::vector<Op>& list = ops(rank);
    RankState& self = state(rank);
    self.wait = Wait::Nothing;
    while (static_cast<size_t>(self.pc) < list.size()) {
      const auto begin = static_cast<size_t>(self.pc), end = messageEnd(list, begin);
      const std::span<const Op> message = std::span(list).subspan(begin, end - begin);
      if (!ready(rank, message)) break;
      if (!take(rank, message)) return false;
      const size_t first = pool_.size();
      for (size_t k = 0; k < message.size(); ++k) {
        payloads_.clear();
        for (const size_t from : taken_) payloads_.push_back(pool_[from + k]);
        const int32_t payload = step(rank, static_cast<int>(begin + k), std::span<const int32_t>(payloads_));
        if (payload == kStop) return false;
        if (!message[0].to.empty()) pool_.push_back(payload);
      }
      post(rank, message, first);
      self.pc = static_cast<int32_t>(end);
    }
  }
  for (int r = 0; r < nRanks_; ++r) {
    if (static_cast<size_t>(state(r).pc) < ops(r).size()) return false;
  }
  return true;
}

}  // namespace tutti
