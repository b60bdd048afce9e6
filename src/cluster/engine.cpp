#include "src/cluster/engine.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "src/sim/estimate.hpp"

namespace tutti::sim {
namespace {

std::vector<bool> allowed(const std::vector<ProtocolSpec>& list, const std::string& name) {
  std::vector<bool> result(list.size(), true);
  const bool known = std::any_of(list.begin(), list.end(), [&](const auto& p) { return p.name == name; });
  for (size_t i = 0; known && i < list.size(); ++i) result[i] = list[i].name == name;
  return result;
}

/// Of one message alone on a way of which it gets that share.
double messageUs(const ProtocolSpec& p, double bytes, double gbps) {
  double rate = gbps * p.efficiency;
  if (p.mostGBps > 0) rate = std::min(rate, p.mostGBps);
  const double copiesUs = p.copyGBps > 0 ? 2 * bytes / (p.copyGBps * 1e3) : 0;
  return p.overheadUs + p.latencyUs + p.receiveUs + copiesUs + bytes / (rate * 1e3);
}

}  // namespace

Engine::Engine(const Job& job)
    : job_(job),
      lanesOfChannel_(job.lanesOfChannel()),
      flows_(job.capacities),
      nearAllowed_(allowed(job.near, job.protocol)),
      farAllowed_(allowed(job.far, job.protocol)) {
  size_t total = 0;
  for (size_t m = 0; m < job.lanes.size(); ++m) {
    fifoBase_.push_back(total);
    total += job.edges[m].size() * static_cast<size_t>(lanesOfChannel_);
    for (int lane = 0; lane < job.nLanes(); ++lane) {
      lanes_.push_back(
          {.member = static_cast<int32_t>(m), .index = lane, .clock = job.nCores > 0 ? 0 : fromUs(job.launchUs)});
    }
  }
  fifos_.resize(total);
  cores_.resize(static_cast<size_t>(job.nCores));
  for (const int32_t core : job.coreOf) places_.push_back(cores_[static_cast<size_t>(core)].members++);
  run_.linkBytes.resize(job.capacities.size());
}

void Engine::push(Queue* queue, int32_t message) {
  messages_[static_cast<size_t>(message)].next = -1;
  if (queue->tail >= 0) {
    messages_[static_cast<size_t>(queue->tail)].next = message;
  } else {
    queue->head = message;
  }
  queue->tail = message;
}

int32_t Engine::pop(Queue* queue) {
  const int32_t message = queue->head;
  queue->head = messages_[static_cast<size_t>(message)].next;
  if (queue->head < 0) queue->tail = -1;
  return message;
}

int32_t Engine::newMessage() {
  if (freeMessages_.empty()) {
    messages_.emplace_back();
    return static_cast<int32_t>(messages_.size()) - 1;
  }
  const int32_t message = freeMessages_.back();
  freeMessages_.pop_back();
  return message;
}

/// The lane is busy, once it has its core; it keeps that for what it does next.  A core goes round its members: past
/// those that have to wait to the next that can go on, and all the time while nobody can.
void Engine::work(int32_t id, double us) {
  Lane& lane = lanes_[static_cast<size_t>(id)];
  const Picoseconds time = fromUs(us);
  if (cores_.empty()) {
    lane.clock += time;
  } else if (time > 0) {
    Core& core = cores_[static_cast<size_t>(job_.coreOf[static_cast<size_t>(lane.member)])];
    const int32_t place = places_[static_cast<size_t>(lane.member)];
    const bool idle = lane.clock > core.free;
    const int32_t turns = core.turn < 0 ? 0
                          : idle        ? core.members - 1
                                        : (place - core.turn + core.members) % core.members;
    const double goingUs = turns > 0 ? job_.turnUs + (turns - 1) * job_.passUs : 0;
    lane.clock = std::max(lane.clock, core.free) + fromUs(goingUs) + time;
    core.free = lane.clock;
    core.turn = place;
  }
}

/// Takes the messages of a step if all are there; when that is, and which of them came last if the lane waited for it.
bool Engine::take(int32_t id, const Step& step, Picoseconds* ready, int32_t* cause) {
  Lane& lane = lanes_[static_cast<size_t>(id)];
  const JobLane& mine = jobLane(lane);
  const StepPeer* peers = mine.steps().peers.data() + step.firstPeer;
  for (uint32_t i = 0; i < step.nFrom; ++i) {
    const Fifo& from = fifo(lane.member, mine.firstEdge + peers[i].edge, lane.index);
    if (from.messages >= peers[i].messages) continue;
    lane.waitsFor = &from - fifos_.data();
    return false;
  }
  *ready = lane.clock;
  Picoseconds receive = 0;
  double copyUs = 0;
  for (uint32_t i = 0; i < step.nFrom; ++i) {
    Fifo& from = fifo(lane.member, mine.firstEdge + peers[i].edge, lane.index);
    from.messages -= peers[i].messages;
    for (int32_t wanted = peers[i].messages; wanted > 0;) {
      Message& m = messages_[static_cast<size_t>(from.head)];
      if (m.arrival > *ready) {
        *ready = m.arrival;
        *cause = m.record;
      }
      const int32_t taken = std::min(wanted, m.messages);
      m.messages -= taken;
      wanted -= taken;
      if (m.messages > 0) break;
      receive += m.receive;
      copyUs += m.copyUs * (i > 0 && step.reduced > 0 ? kFurtherOperands : 1);
      if (i == 0) copyUs += step.scattered * m.gatherUsPerChunk;
      freeMessages_.push_back(pop(&from));
    }
  }
  lane.clock = *ready;
  work(id, toUs(receive) + copyUs);
  return true;
}

/// A rank pays for a call once, where ranks share cores; else all lanes begin together.
void Engine::beginCall(int32_t id) {
  Lane& lane = lanes_[static_cast<size_t>(id)];
  lane.called = true;
  if (cores_.empty()) {
    lane.clock += fromUs(job_.launchUs);
  } else if (lane.index == 0) {
    work(id, job_.launchUs);
  }
}

void Engine::advance(int32_t id) {
  Lane& lane = lanes_[static_cast<size_t>(id)];
  const LaneProgram& program = jobLane(lane).steps();
  lane.waitsFor = -1;
  for (; lane.loop < loops_; ++lane.loop, lane.step = 0) {
    for (; lane.step < program.steps.size(); ++lane.step) {
      const Step& step = program.steps[lane.step];
      if (lane.step == 0 && lane.loop > 0 && lane.loop % job_.loopsOfCall == 0 && !lane.called) beginCall(id);
      Picoseconds ready = lane.clock;
      int32_t cause = -1, record = -1;
      if (step.nFrom > 0 && !take(id, step, &ready, &cause)) return;
      if (step.reduced > 0) {
        work(id, step.nFrom * job_.combineUs + step.reduced * chunkBytes_ / (job_.reduceGBps * 1e3));
      }
      if (step.copied > 0) work(id, step.copied * chunkBytes_ / (job_.copyGBps * 1e3));
      if (record_) {
        record = static_cast<int32_t>(run_.steps.size());
        run_.steps.push_back({lane.member, lane.index, static_cast<int32_t>(lane.step), lane.loop, ready, lane.clock,
                              cause, lane.lastRecord});
        lane.lastRecord = record;
      }
      for (uint32_t i = 0; i < step.nTo; ++i) {
        post(id, program.peers[step.firstPeer + step.nFrom + i], step, /*first=*/i == 0, record);
      }
      lane.called = false;
      if (record_) run_.steps[static_cast<size_t>(record)].end = lane.clock;
    }
  }
}

int Engine::protocolFor(const Edge& edge, double bytes) const {
  const auto& list = edge.far ? job_.far : job_.near;
  const auto& isAllowed = edge.far ? farAllowed_ : nearAllowed_;
  int best = -1;
  double bestUs = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < list.size(); ++i) {
    if (!isAllowed[i] || (list[i].mostBytes > 0 && bytes > list[i].mostBytes)) continue;
    // Lanes do the same at the same time and share the way.
    const double us = messageUs(list[i], bytes, edge.mostGBps / job_.nLanes());
    if (us < bestUs) {
      bestUs = us;
      best = static_cast<int>(i);
    }
  }
  return best >= 0 ? best : static_cast<int>(list.size()) - 1;
}

/// More for memory that a receiver on another core has read: with a protocol that writes once, of any of them.
double Engine::writeAcrossUs(const Lane& lane, const Step& step, const StepPeer& peer, bool first,
                             const ProtocolSpec& p, double bytes) const {
  if (p.acrossWriteGBps <= 0 || (p.once && !first)) return 0;
  const JobLane& mine = jobLane(lane);
  const StepPeer* to = p.once ? mine.steps().peers.data() + step.firstPeer + step.nFrom : &peer;
  const auto across = [&](const StepPeer& one) {
    return toAnotherCore(lane,
                         job_.edges[static_cast<size_t>(lane.member)][static_cast<size_t>(mine.firstEdge + one.edge)]);
  };
  return std::any_of(to, to + (p.once ? step.nTo : 1), across) ? bytes / (p.acrossWriteGBps * 1e3) : 0;
}

void Engine::post(int32_t id, const StepPeer& peer, const Step& step, bool first, int32_t stepRecord) {
  const double bytes = step.chunks * chunkBytes_;
  Lane& lane = lanes_[static_cast<size_t>(id)];
  const int32_t edgeIndex = jobLane(lane).firstEdge + peer.edge;
  const Edge& edge = job_.edges[static_cast<size_t>(lane.member)][static_cast<size_t>(edgeIndex)];
  const int protocol = protocolFor(edge, bytes);
  const ProtocolSpec& p = (edge.far ? job_.far : job_.near)[static_cast<size_t>(protocol)];
  const double copyUs = p.copyGBps > 0 ? bytes / (p.copyGBps * 1e3) : 0;
  const double gatherUsPerChunk = p.gatherGBps > 0 ? chunkBytes_ / (p.gatherGBps * 1e3) : 0;
  work(id, p.overheadUs + (first || !p.once ? copyUs : 0) + (first ? step.gathered * gatherUsPerChunk : 0) +
               writeAcrossUs(lane, step, peer, first, p, bytes));
  const int32_t id2 = newMessage();
  Message& m = messages_[static_cast<size_t>(id2)];
  m.ready = lane.clock;
  // Processors that copy from memory to memory are all the wire there is.
  m.wireBytes = p.copyGBps > 0 && edge.nLinks == 0 ? 0 : bytes / p.efficiency;
  m.mostGBps = p.mostGBps > 0 ? std::min(edge.mostGBps, p.mostGBps / p.efficiency) : edge.mostGBps;
  m.latency = fromUs(p.latencyUs + edge.switchesUs);
  m.lane = id;
  m.edge = &edge;
  m.messages = peer.messages;
  m.record = -1;
  const bool across = toAnotherCore(lane, edge);
  m.receive = fromUs(p.receiveUs + (across ? p.acrossUs : 0));
  m.copyUs = copyUs + (across && p.acrossGBps > 0 ? bytes / (p.acrossGBps * 1e3) : 0);
  m.gatherUsPerChunk = gatherUsPerChunk;
  ++run_.messages;
  if (record_) {
    m.record = static_cast<int32_t>(run_.sent.size());
    run_.sent.push_back({stepRecord, lane.member, edgeIndex, protocol, -1, bytes, m.ready, 0, 0, 0});
  }
  if (mayBegin(lane, edge)) {
    schedule(id, id2, m.ready);
  } else {
    push(&lane.unsent, id2);
  }
}

void Engine::schedule(int32_t id, int32_t message, Picoseconds at) {
  Lane& lane = lanes_[static_cast<size_t>(id)];
  ++lane.onWire;
  const Edge& edge = *messages_[static_cast<size_t>(message)].edge;
  fifo(edge.to, edge.toEdge, lane.index).busy = true;
  heap_.push_back({at, message, 0, true});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

/// The first of the unsent messages whose peer has none on the wire, if the lane may have one more there.
void Engine::sendNext(int32_t id, int32_t behind, Picoseconds now) {
  Lane& lane = lanes_[static_cast<size_t>(id)];
  int32_t before = -1;
  for (int32_t message = lane.unsent.head; message >= 0 && lane.onWire < job_.inFlight;) {
    Message& m = messages_[static_cast<size_t>(message)];
    const int32_t next = m.next;
    if (!mayBegin(lane, *m.edge)) {
      before = message;
      message = next;
      continue;
    }
    (before >= 0 ? messages_[static_cast<size_t>(before)].next : lane.unsent.head) = next;
    if (next < 0) lane.unsent.tail = before;
    if (record_ && m.ready < now) run_.sent[static_cast<size_t>(m.record)].behind = behind;
    schedule(id, message, std::max(m.ready, now));
    message = next;
  }
}

void Engine::begin(int32_t id, Picoseconds now) {
  Message& m = messages_[static_cast<size_t>(id)];
  if (record_) run_.sent[static_cast<size_t>(m.record)].start = now;
  if (m.wireBytes <= 0) return leave(id, now);
  const auto links = job_.linksOf(*m.edge);
  for (const int32_t link : links) run_.linkBytes[static_cast<size_t>(link)] += m.wireBytes;
  const int32_t flow = flows_.start(links, m.wireBytes, m.mostGBps, now);
  if (static_cast<size_t>(flow) >= messageOfFlow_.size()) messageOfFlow_.resize(static_cast<size_t>(flow) + 1);
  messageOfFlow_[static_cast<size_t>(flow)] = id;
}

/// The last byte has left: it arrives, and the lane's next message begins.
void Engine::leave(int32_t id, Picoseconds now) {
  Message& m = messages_[static_cast<size_t>(id)];
  Lane& sender = lanes_[static_cast<size_t>(m.lane)];
  const Edge& edge = *m.edge;
  Fifo& to = fifo(edge.to, edge.toEdge, sender.index);
  m.arrival = now + m.latency;
  if (to.tail >= 0) m.arrival = std::max(m.arrival, messages_[static_cast<size_t>(to.tail)].arrival);
  if (record_) {
    MessageRecord& record = run_.sent[static_cast<size_t>(m.record)];
    record.end = now;
    record.arrival = m.arrival;
  }
  to.messages += m.messages;
  push(&to, id);
  --sender.onWire;
  to.busy = false;
  sendNext(m.lane, m.record, now);
  const int32_t receiver = edge.to * job_.nLanes() + edge.toChannel * lanesOfChannel_ + sender.index % lanesOfChannel_;
  if (lanes_[static_cast<size_t>(receiver)].waitsFor == &to - fifos_.data()) advance(receiver);
}

std::string Engine::describeHalt() const {
  for (const Lane& lane : lanes_) {
    if (lane.waitsFor < 0) continue;
    const auto m = static_cast<size_t>(lane.member);
    const size_t edge = (static_cast<size_t>(lane.waitsFor) - fifoBase_[m]) / static_cast<size_t>(lanesOfChannel_);
    return cat("rank ", job_.rankOf[m], " lane ", lane.index, " step ", lane.step, " waits for ever for rank ",
               job_.rankOf[static_cast<size_t>(job_.edges[m][edge].to)]);
  }
  return {};
}

Result<Run> Engine::run(int loops, double loopBytes, bool record) {
  loops_ = loops;
  chunkBytes_ = loopBytes;
  record_ = record;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (!cores_.empty()) beginCall(static_cast<int32_t>(i));
    advance(static_cast<int32_t>(i));
  }
  while (!heap_.empty()) {
    const Event event = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    ++run_.events;
    if (event.at > kMostTime)
      return invalidArgument("this takes more than ", kMostTime / 86'400'000'000'000'000, " days");
    if (event.starts) {
      begin(event.id, event.at);
    } else if (flows_.current({event.id, event.version, event.at})) {
      flows_.finish(event.id, event.at);
      leave(messageOfFlow_[static_cast<size_t>(event.id)], event.at);
    }
    if (!flows_.settled() && (heap_.empty() || heap_.front().at > event.at)) {
      for (const Flows::Ending& e : flows_.settle(event.at)) {
        heap_.push_back({e.at, e.flow, e.version, false});
        std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      }
    }
  }
  if (std::string halt = describeHalt(); !halt.empty()) return internalError("the simulation came to a halt: ", halt);
  run_.ends.resize(job_.lanes.size());
  for (const Lane& lane : lanes_) {
    Picoseconds& end = run_.ends[static_cast<size_t>(lane.member)];
    end = std::max(end, lane.clock);
    run_.end = std::max(run_.end, lane.clock);
  }
  return std::move(run_);
}

}  // namespace tutti::sim
