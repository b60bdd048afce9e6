// The discrete-event engine: runs the programs of ranks in virtual time, step by step, and moves no bytes.
//
// A lane executes its steps in order.  A step waits until its messages are there, takes them, combines and copies, and
// sends; the wires say when what it sends arrives.  Messages between two ranks on one lane are taken in order.
// Receivers always have room: what credits cost is in the prices.  Who sends what others read where it lies begins no
// other loop before they have read it.
//
// The model of the wires, a parameter, decides when members work:
//   - in the order of events (Wires::kAhead is false), where wires are taken at once by who sends: every member is on a
//     core.  A core goes round its members, past those that have to wait to the next that can go on, which keeps it,
//     step by step, until it has to wait; the lanes of a member take turns without cost.
//   - ahead of the events (kAhead), where every message is an event of its own: a lane goes on as soon as its messages
//     are known to come.  Lanes have processors of their own, or book the core that their members share from waiting to
//     waiting.
// In both nobody is interrupted.  A model of wires has
//   Edge, Transit, kAhead             what it keeps of an edge of the workload, and of a message under way
//   price(step, to, i, member, &m)    what the message m to the i-th of a step's receivers costs its two ends; sets
//                                     Message::direct (kAhead: never) and fresh
//   send(engine, id, begin, ready)    the sender has begun to work for it at `begin`, and has done so at `ready`
//   happen(engine, what, version, at) an event of its own (Engine::at)
//   settle(engine, now)               nothing else happens at `now`
//   lookUs(edge)                      MessagePrice::lookUs of messages that come by it (not with kAhead)
// and tells the engine of messages by enqueue() and arrive(), with kAhead not in send().
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.hpp"
#include "src/sim/engine_state.hpp"
#include "src/sim/workload.hpp"

namespace tutti::sim {

/// One use.  One thread.
template <class Wires>
class Engine {
 public:
  using Edge = typename Wires::Edge;
  struct Message {
    double arrival = kNever;
    double bytes = 0;
    const MessagePrice* price = nullptr;
    const Edge* edge = nullptr;
    int32_t sender = 0;  // lane
    int32_t count = 0;   // messages that it stands for
    int32_t left = 0;    // of them
    int32_t next = -1;   // in its queue
    int32_t record = -1;
    bool direct = false;  // read where it lies in the sender's memory
    float fresh = 0;      // of MessagePrice::freshUsPerByte
    typename Wires::Transit transit;
  };
  struct Queue {
    int32_t head = -1, tail = -1;
  };

  /// coreOf[member]; empty, with kAhead: every lane has a processor of its own.  All of them have to live as long as
  /// the engine.
  Engine(const Workload<Edge>& load, const RankPrices& prices, const std::vector<int32_t>& coreOf, Wires* wires)
      : load_(load), prices_(prices), coreOf_(coreOf), wires_(*wires), lanesOfChannel_(load.lanesOfChannel()) {
    nLanes_ = static_cast<size_t>(load.nLanes());
    size_t total = 0;
    lanes_.reserve(load.lanes.size() * nLanes_);
    for (size_t m = 0; m < load.lanes.size(); ++m) {
      fifoBase_.push_back(total);
      total += load.edges[m].size() * static_cast<size_t>(lanesOfChannel_);
      for (size_t i = 0; i < nLanes_; ++i) {
        const MemberLane& lane = load.lanes[m][i];
        lanes_.push_back(
            {&lane.steps(), static_cast<int32_t>(m), lane.firstEdge, static_cast<int32_t>(i) % lanesOfChannel_});
      }
    }
    fifos_.resize(total);
    for (size_t m = 0; m < coreOf.size(); ++m) {
      const auto core = static_cast<size_t>(coreOf[m]);
      if (core >= cores_.size()) cores_.resize(core + 1);
      placeOf_.push_back(cores_[core].members.size());
      cores_[core].members.push_back(static_cast<int32_t>(m));
    }
    lastLane_.resize(coreOf.size());
  }

  /// All lanes `loops` times, with messages of chunkBytes bytes a chunk (channels that start apart: in one loop less);
  /// a call begins every loopsOfCall loops. Errors: InvalidArgument beyond kMostUs; InternalError with who waits for
  /// whom if programs come to a halt.
  Result<Run> run(int loops, int loopsOfCall, double chunkBytes, bool record) {
    loops_ = loops;
    loopsOfCall_ = loopsOfCall;
    chunkBytes_ = chunkBytes;
    record_ = record;
    run_.ends.resize(static_cast<size_t>(loops));
    for (size_t core = 0; !Wires::kAhead && core < cores_.size(); ++core) wake(static_cast<int32_t>(core), 0);
    for (size_t lane = 0; Wires::kAhead && lane < lanes_.size(); ++lane) runAhead(static_cast<int32_t>(lane));
    while (!heap_.empty()) {
      const Event event = heap_.top();
      heap_.pop();
      ++run_.events;
      if (event.at > kMostUs) return tooLong();
      if (event.what < 0) {
        wires_.happen(*this, -1 - event.what, event.version, event.at);
      } else if (Core& core = cores_[static_cast<size_t>(event.what)];
                 event.at == core.queuedAt) {  // not woken earlier
        core.queuedAt = kNever;
        core.clock = std::max(core.clock, event.at);
        turn(event.what);
      }
      if (heap_.empty() || heap_.top().at > event.at) wires_.settle(*this, event.at);
    }
    for (const Lane& lane : lanes_)
      if (lane.loop < loops_)
        return internalError(ErrorCode::SchedulesHalt, "the schedules come to a halt: ", describeHalt(lane));
    for (const double end : run_.ends) run_.end = std::max(run_.end, end);
    if (run_.end > kMostUs) return tooLong();
    for (const Core& core : cores_) run_.busyUs = std::max(run_.busyUs, core.busyUs);
    return std::move(run_);
  }

  // For the wires.

  Message& message(int32_t id) { return messages_[static_cast<size_t>(id)]; }
  /// Of an event that happens at the wires.  Those at the same time happen from the largest `what` to the smallest,
  /// before cores take turns.
  void at(double time, int32_t what, uint32_t version = 0) { heap_.push({time, -1 - what, version}); }
  /// The message is next in order for its receiver, which need not be when it arrives.
  void enqueue(int32_t id) { append(&fifos_[fifoOf(message(id))], id); }
  /// An enqueued message can be taken from then on.
  void arrive(int32_t id, double time) {
    Message& m = message(id);
    m.arrival = time;
    if (!Wires::kAhead) return wake(coreOf_[static_cast<size_t>(m.edge->to)], time);
    const Lane& sender = lanes_[static_cast<size_t>(m.sender)];
    const int32_t lane =
        m.edge->to * static_cast<int32_t>(nLanes_) + m.edge->toChannel * lanesOfChannel_ + sender.ofChannel;
    if (lanes_[static_cast<size_t>(lane)].waitsFor == static_cast<int64_t>(fifoOf(m))) runAhead(lane);
  }
  void append(Queue* queue, int32_t id) {
    message(id).next = -1;
    (queue->tail >= 0 ? message(queue->tail).next : queue->head) = id;
    queue->tail = id;
  }
  /// Of the receiver's queue for the edge and lane of a message.
  size_t fifoOf(const Message& m) const {
    return fifoOf(m.edge->to, m.edge->toEdge, lanes_[static_cast<size_t>(m.sender)].ofChannel);
  }
  int32_t memberOf(const Message& m) const { return lanes_[static_cast<size_t>(m.sender)].member; }
  size_t nFifos() const { return fifos_.size(); }
  MessageRecord* recordOf(const Message& m) {
    return m.record < 0 ? nullptr : &run_.sent[static_cast<size_t>(m.record)];
  }

 private:
  using Lane = LaneState;
  using Core = CoreState;
  using Event = Happening;

  size_t fifoOf(int32_t member, int32_t edge, int32_t ofChannel) const {
    return fifoBase_[static_cast<size_t>(member)] + static_cast<size_t>(edge * lanesOfChannel_ + ofChannel);
  }
  Queue& fifo(const Lane& lane, const StepPeer& peer) {
    return fifos_[fifoOf(lane.member, lane.firstEdge + peer.edge, lane.ofChannel)];
  }

  void wake(int32_t id, double time) {
    Core& core = cores_[static_cast<size_t>(id)];
    time = std::max(time, core.clock);
    if (time >= core.queuedAt) return;
    core.queuedAt = time;
    heap_.push({time, id, 0});
  }

  bool mustLaunch(const Lane& lane) const {
    if (prices_.launchUs <= 0 || lane.step > 0 || lane.launched || lane.loop % loopsOfCall_ > 0) return false;
    return cores_.empty() || static_cast<size_t>(&lane - lanes_.data()) % nLanes_ == 0;
  }

  /// When the messages of the lane's next step are there; kNever if one has not been sent, or nothing is left to do.
  double readyAt(Lane& lane) {
    lane.waitEdge = -1;
    if (lane.loop == loops_) return kNever;
    if (mustLaunch(lane) || lane.program->steps.empty()) return 0;
    const Step& step = lane.program->steps[lane.step];
    // A call that others read from returns when they have.
    if (lane.step == 0 && lane.unread > 0) return kNever;
    double time = lane.step == 0 ? lane.readAt : 0;
    for (uint32_t i = 0; i < step.nFrom; ++i) {
      const StepPeer& peer = lane.program->peers[step.firstPeer + i];
      const Queue& from = fifo(lane, peer);
      int32_t wanted = peer.messages;
      for (int32_t id = from.head; id >= 0 && wanted > 0; id = message(id).next) {
        wanted -= message(id).left;
        time = std::max(time, message(id).arrival);
      }
      if (wanted > 0) {
        lane.waitsFor = &from - fifos_.data();
        lane.waitEdge = lane.firstEdge + peer.edge;
        return kNever;
      }
    }
    return time;
  }

  /// The first of a member's lanes that can go on at `now`; sets `soonest` to when one can, where none can.
  int32_t laneReady(int32_t member, double now, double* soonest) {
    const size_t first = static_cast<size_t>(member) * nLanes_;
    size_t lane = lastLane_[static_cast<size_t>(member)];
    for (size_t i = 0; i < nLanes_; ++i, lane = lane + 1 < nLanes_ ? lane + 1 : 0) {
      const double time = readyAt(lanes_[first + lane]);
      if (time > now) {
        *soonest = std::min(*soonest, time);
        continue;
      }
      lastLane_[static_cast<size_t>(member)] = lane;
      return static_cast<int32_t>(first + lane);
    }
    return -1;
  }

  /// How long a look of a member that has to wait takes the core.
  double lookUs(int32_t member) const {
    const auto m = static_cast<size_t>(member);
    const int32_t edge = lanes_[m * nLanes_ + lastLane_[m]].waitEdge;
    if constexpr (Wires::kAhead) {
      return 0;
    } else {
      return edge < 0 ? 0 : wires_.lookUs(load_.edges[m][static_cast<size_t>(edge)]);
    }
  }

  /// One step of the member that has the core, or of the next that can go on.
  void turn(int32_t id) {
    Core& core = cores_[static_cast<size_t>(id)];
    double soonest = kNever;
    // While nobody can go on, the core goes round, though not strictly in turn: whoever can go on waits for about a
    // round (chains of 8 ranks on 2 cores: 2.1 to 2.6 us a step of a ring).
    double now = core.clock;
    if (core.idle && core.members.size() > 1) {
      now += prices_.turnUs + static_cast<double>(core.members.size() - 2) * prices_.passUs;
      for (size_t i = 1; i < core.members.size(); ++i) now += lookUs(core.members[i]);
    }
    size_t index = core.current;
    for (size_t i = 0; i < core.members.size(); ++i, index = index + 1 < core.members.size() ? index + 1 : 0) {
      const int32_t lane = laneReady(core.members[index], now, &soonest);
      if (lane < 0) {
        if (!core.idle) now += (i == 0 ? prices_.turnUs : prices_.passUs) + lookUs(core.members[index]);
        continue;
      }
      core.current = index;
      core.idle = false;
      const double before = core.clock;
      core.clock = now;
      execute(lane, &core.clock);
      core.busyUs += core.clock - before;
      return wake(id, core.clock);
    }
    core.idle = true;
    if (soonest < kNever) wake(id, soonest);
  }

  /// Time passes for a lane; with kAhead it takes its core first, and keeps that for what it does next.
  void spend(const Lane& lane, double us, double* clock) {
    if (!Wires::kAhead || cores_.empty() || us <= 0) {
      *clock += us;
      return;
    }
    Core& core = cores_[static_cast<size_t>(coreOf_[static_cast<size_t>(lane.member)])];
    const size_t place = placeOf_[static_cast<size_t>(lane.member)], members = core.members.size();
    // While nobody can go on the core goes round all the time.  Half a picosecond is rounding.
    const bool idle = *clock > core.clock + 0.5e-6, first = core.busyUs == 0;
    const size_t turns = first ? 0 : idle ? members - 1 : (place + members - core.current) % members;
    *clock = std::max(*clock, core.clock) + us;
    if (turns > 0) *clock += prices_.turnUs + static_cast<double>(turns - 1) * prices_.passUs;
    core.clock = *clock;
    core.busyUs += us;
    core.current = place;
  }

  void runAhead(int32_t id) {
    Lane& lane = lanes_[static_cast<size_t>(id)];
    for (double time = readyAt(lane); time < kNever; time = readyAt(lane)) {
      double clock = std::max(lane.clock, time);
      execute(id, &clock);
    }
  }

  void execute(int32_t id, double* clock) {
    Lane& lane = lanes_[static_cast<size_t>(id)];
    if (mustLaunch(lane)) {
      lane.launched = true;
      spend(lane, prices_.launchUs, clock);
      lane.clock = *clock;
      return;
    }
    const auto& steps = lane.program->steps;
    if (!steps.empty()) executeStep(id, steps[lane.step], clock);
    lane.clock = *clock;
    if (!steps.empty() && ++lane.step < steps.size()) return;
    lane.step = 0;
    lane.launched = false;
    double& end = run_.ends[static_cast<size_t>(lane.loop++)];
    end = std::max(end, *clock);
  }

  double bytesOf(const Lane& lane) const {
    const size_t index = static_cast<size_t>(&lane - lanes_.data()) % nLanes_;
    return chunkBytes_ *
           load_.shareOf(static_cast<int>(index) / lanesOfChannel_, lane.loop % loopsOfCall_, loopsOfCall_);
  }

  void executeStep(int32_t id, const Step& step, double* clock) {
    Lane& lane = lanes_[static_cast<size_t>(id)];
    const double bytes = bytesOf(lane);
    const StepPeer* peers = lane.program->peers.data() + step.firstPeer;
    const int32_t record = record_ ? beginRecord(id, step) : -1;
    double work = step.reduced * bytes * prices_.reduceUsPerByte + step.copied * bytes * prices_.copyUsPerByte;
    if (step.reduced > 0) work += step.nFrom * prices_.combineUs;
    read_.clear();
    for (uint32_t i = 0; i < step.nFrom; ++i) work += take(lane, peers[i], step, /*first=*/i == 0);
    spend(lane, work * prices_.stretch, clock);
    for (const auto& [sender, latencyUs] : read_) acknowledge(sender, *clock + latencyUs);
    for (uint32_t i = 0; i < step.nTo; ++i) post(id, step, peers + step.nFrom, i, record, clock);
    if (record >= 0) run_.steps[static_cast<size_t>(record)].end = *clock;
  }

  int32_t beginRecord(int32_t id, const Step& step) {
    Lane& lane = lanes_[static_cast<size_t>(id)];
    const auto index = static_cast<int32_t>(static_cast<size_t>(id) % nLanes_);
    StepRecord record{lane.member, index,          static_cast<int32_t>(lane.step), lane.loop, lane.clock, 0,
                      -1,          lane.lastRecord};
    for (uint32_t i = 0; i < step.nFrom; ++i) {
      const StepPeer& peer = lane.program->peers[step.firstPeer + i];
      int32_t wanted = peer.messages;
      for (int32_t m = fifo(lane, peer).head; wanted > 0; m = message(m).next) {
        wanted -= message(m).left;
        if (message(m).arrival <= record.ready) continue;
        record.ready = message(m).arrival;
        record.message = message(m).record;
      }
    }
    run_.steps.push_back(record);
    return lane.lastRecord = static_cast<int32_t>(run_.steps.size()) - 1;
  }

  /// What the receiver does for a message.
  double take(const Lane& lane, const StepPeer& peer, const Step& step, bool first) {
    Queue& from = fifo(lane, peer);
    double work = 0;
    if (first && step.scattered > 0) work += step.scattered * bytesOf(lane) * message(from.head).price->gatherUsPerByte;
    for (int32_t wanted = peer.messages; wanted > 0;) {
      const int32_t id = from.head;
      Message& m = message(id);
      const int32_t taken = std::min(wanted, m.left);
      wanted -= taken;
      m.left -= taken;
      if (m.left > 0) break;
      const MessagePrice& price = *m.price;
      if (m.direct) read_.emplace_back(m.sender, price.latencyUs);
      work += m.count * price.receiveUs + m.bytes * receiveUsPerByte(price, prices_, step.reduced > 0, first, m.fresh);
      from.head = m.next;
      if (from.head < 0) from.tail = -1;
      m.next = free_;
      free_ = id;
    }
    return work;
  }

  void acknowledge(int32_t sender, double time) {
    Lane& lane = lanes_[static_cast<size_t>(sender)];
    lane.readAt = std::max(lane.readAt, time);
    if (--lane.unread > 0 || lane.step > 0) return;
    wake(coreOf_[static_cast<size_t>(lane.member)], lane.readAt);
  }

  int32_t newMessage() {
    if (free_ < 0) {
      messages_.emplace_back();
      return static_cast<int32_t>(messages_.size()) - 1;
    }
    return std::exchange(free_, message(free_).next);
  }

  void post(int32_t id, const Step& step, const StepPeer* to, uint32_t i, int32_t stepRecord, double* clock) {
    Lane& lane = lanes_[static_cast<size_t>(id)];
    const int32_t edge = lane.firstEdge + to[i].edge;
    const auto& edges = load_.edges[static_cast<size_t>(lane.member)];
    const int32_t number = newMessage();
    Message& m = message(number);
    m.arrival = kNever;
    m.bytes = step.chunks * bytesOf(lane);
    m.edge = &edges[static_cast<size_t>(edge)];
    m.sender = id;
    m.count = m.left = to[i].messages;
    m.price = &wires_.price(step, to, i, lane.member, &m);
    const double begin = *clock;
    spend(lane, sendWork(*m.price, step, to[i], /*first=*/i == 0, bytesOf(lane)) * prices_.stretch, clock);
    if (m.direct) ++lane.unread;
    ++run_.messages;
    m.record = -1;
    if (record_) {
      m.record = static_cast<int32_t>(run_.sent.size());
      run_.sent.push_back({stepRecord, lane.member, edge, 0, -1, m.bytes, *clock, 0, 0, 0});
    }
    wires_.send(*this, number, begin, *clock);
  }

  static Status tooLong() {
    return invalidArgument(ErrorCode::NotSimulated, "this takes more than ", static_cast<int>(kMostUs / 86'400e6),
                           " days");
  }

  std::string describeHalt(const Lane& lane) const {
    const auto m = static_cast<size_t>(lane.member);
    const std::string who = cat("rank ", load_.rankOf[m], " step ", lane.step, " of a lane waits for ever");
    if (lane.waitsFor < 0 || (lane.step == 0 && lane.unread > 0)) return who;
    const size_t edge = (static_cast<size_t>(lane.waitsFor) - fifoBase_[m]) / static_cast<size_t>(lanesOfChannel_);
    return cat(who, " for rank ", load_.rankOf[static_cast<size_t>(load_.edges[m][edge].to)]);
  }

  const Workload<Edge>& load_;
  const RankPrices& prices_;
  const std::vector<int32_t>& coreOf_;
  Wires& wires_;
  const int32_t lanesOfChannel_;
  size_t nLanes_ = 0;
  int loops_ = 1, loopsOfCall_ = 1;
  double chunkBytes_ = 0;
  bool record_ = false;
  std::vector<Lane> lanes_;  // [member][lane]
  std::vector<size_t> fifoBase_;
  std::vector<Queue> fifos_;
  std::vector<Message> messages_;
  int32_t free_ = -1;
  std::vector<Core> cores_;
  std::vector<size_t> placeOf_;                   // [member] among those of its core
  std::vector<size_t> lastLane_;                  // [member]
  std::vector<std::pair<int32_t, double>> read_;  // by the step that is executed: whose messages, and their way back
  std::priority_queue<Event, std::vector<Event>, std::greater<>> heap_;
  Run run_;
};

}  // namespace tutti::sim
