#include "src/sim/estimate.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace tutti::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostPasses = 8;

struct Message {
  double arrival;
  double bytes;
  bool direct;
  bool fresh;
  bool here;  // the receiver is on the sender's core
  uint8_t level;
  int32_t count;  // messages that it stands for
  int32_t left;   // of them
  int32_t next;
  int32_t from = 0, to = 0;  // members
  double least = 0, wireUs = 0, afterWireUs = 0;
};

struct Fifo {
  int32_t head = -1, tail = -1;
};

struct LaneState {
  uint32_t step = 0;
  int32_t pass = 0;
  int32_t unread = 0;  // messages that receivers have to read where they lie
  double readAt = 0;   // when the last of those that are read was
};

struct Core {
  std::vector<int32_t> members;
  size_t current = 0;
  double clock = 0;
  double busyUs = 0;
  bool idle = false;
  double queuedAt = kNever;
};

struct Event {
  double at;
  int32_t core;  // whose turn it is; -1 - m: message m comes to a wire
  bool operator>(const Event& o) const { return at > o.at || (at == o.at && core > o.core); }
};

/// [member]: the core that it is on, by the number of the member on its node.
std::vector<int32_t> coresOf(const Roles& roles, const Prices& prices) {
  std::vector<std::vector<size_t>> nodes;
  for (size_t m = 0; m < roles.programs.size(); ++m) {
    const auto node = static_cast<size_t>(roles.classes ? roles.nodeOf[m] : roles.places[m].node);
    if (node >= nodes.size()) nodes.resize(node + 1);
    nodes[node].push_back(m);
  }
  std::vector<int32_t> coreOf(roles.programs.size());
  size_t base = 0;
  for (const std::vector<size_t>& members : nodes) {
    const size_t here = prices.coresPerNode > 0 ? static_cast<size_t>(prices.coresPerNode) : members.size();
    for (size_t i = 0; i < members.size(); ++i) coreOf[members[i]] = static_cast<int32_t>(base + i % here);
    base += std::min(here, members.size());
  }
  return coreOf;
}

const MessagePrice& priceOf(const Prices& prices, bool direct, bool here, size_t level) {
  return (direct ? prices.direct : here ? prices.here : prices.channel)[level];
}

/// Whether what a step sends to a peer is read where it lies.
bool isDirect(const Prices& prices, const Step& step, const StepPeer& peer, double chunkBytes) {
  return step.direct && step.chunks * chunkBytes >= peer.messages * prices.leastDirectBytes;
}

/// Whether two members are known to share a core: what stands for a class may be on any.
bool shareCore(const Roles& roles, const std::vector<int32_t>& coreOf, size_t a, size_t b) {
  return !roles.classes && coreOf[a] == coreOf[b];
}

/// Work of a step's sender for what goes to one peer.
double sendWork(const MessagePrice& way, const Step& step, const StepPeer& peer, bool first, double chunkBytes) {
  if (!first && step.published) return 0;
  const bool copies = first || !way.once;
  const double gathered = first ? step.gathered * chunkBytes * way.gatherUsPerByte : 0;
  return peer.messages * way.sendUs + (copies ? step.chunks * chunkBytes * way.sendUsPerByte : 0) + gathered;
}

double receiveUsPerByte(const MessagePrice& way, bool combines, bool first, bool fresh) {
  const double freshUs = fresh ? way.freshUsPerByte : 0;
  if (!combines) return way.receiveUsPerByte + freshUs;
  return (first ? 1 : kFurtherOperands) * way.receiveUsPerByte + way.operandUsPerByte + freshUs;
}

bool combines(const Roles& roles) {
  for (const auto& program : roles.programs) {
    for (const LaneProgram& lane : *program->lanes) {
      if (std::ranges::any_of(lane.steps, [](const Step& step) { return step.reduced > 0; })) return true;
    }
  }
  return false;
}

class EstimateRun {
 public:
  EstimateRun(const Bound& bound, const Prices& prices, double chunkBytes, int passes)
      : bound_(bound), roles_(bound.roles), prices_(prices), chunkBytes_(chunkBytes), passes_(passes) {
    nLanes_ = roles_.programs.front()->lanes->size();
    size_t total = 0;
    for (const auto& edges : roles_.edges) {
      fifoBase_.push_back(total);
      total += edges.size() * nLanes_;
    }
    fifos_.resize(total);
    lanes_.resize(roles_.programs.size() * nLanes_);
    lastLane_.resize(roles_.programs.size());
    const auto ports = static_cast<size_t>(bound.nGroups);
    outFree_.resize(ports);
    wireUs_.resize(2 * ports);
    inFree_.resize(ports);
    layOutCores();
  }

  Result<Estimate> run() {
    for (size_t core = 0; core < cores_.size(); ++core) wake(static_cast<int32_t>(core), 0);
    while (!heap_.empty()) {
      const Event event = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      if (event.core < 0) {
        comeIn(-1 - event.core, event.at);
        continue;
      }
      Core& core = cores_[static_cast<size_t>(event.core)];
      if (event.at != core.queuedAt) continue;  // it was woken earlier
      core.queuedAt = kNever;
      core.clock = std::max(core.clock, event.at);
      turn(event.core);
    }
    const bool done = std::all_of(lanes_.begin(), lanes_.end(), [&](const LaneState& l) { return l.pass == passes_; });
    if (!done) return internalError("a schedule that is estimated comes to a halt");
    double busiest = 0;
    for (const Core& core : cores_) busiest = std::max(busiest, core.busyUs / passes_);
    const double nextUs = passes_ > 1 ? (ends_[passes_ - 1] - ends_[0]) / (passes_ - 1) : ends_[0];
    double wire = 0;
    for (const double us : wireUs_) wire = std::max(wire, us / passes_);
    return Estimate{ends_[0], nextUs, busiest, wire};
  }

 private:
  void layOutCores() {
    coreOf_ = coresOf(roles_, prices_);
    for (size_t m = 0; m < coreOf_.size(); ++m) {
      const auto core = static_cast<size_t>(coreOf_[m]);
      if (core >= cores_.size()) cores_.resize(core + 1);
      cores_[core].members.push_back(static_cast<int32_t>(m));
    }
  }

  void wake(int32_t id, double at) {
    Core& core = cores_[static_cast<size_t>(id)];
    at = std::max(at, core.clock);
    if (at >= core.queuedAt) return;
    core.queuedAt = at;
    this->at({at, id});
  }

  const LaneProgram& program(int32_t member, size_t lane) const {
    return (*roles_.programs[static_cast<size_t>(member)]->lanes)[lane];
  }
  Fifo& fifo(int32_t member, int32_t edge, size_t lane) {
    return fifos_[fifoBase_[static_cast<size_t>(member)] + static_cast<size_t>(edge) * nLanes_ + lane];
  }

  /// When the messages of the lane's next step are there; kNever if one has not been sent, or nothing is left to do.
  double readyAt(int32_t member, size_t lane) {
    const LaneState& state = lanes_[static_cast<size_t>(member) * nLanes_ + lane];
    const LaneProgram& p = program(member, lane);
    if (state.pass == passes_) return kNever;
    if (p.steps.empty()) return 0;
    const Step& step = p.steps[state.step];
    // A call that others read from returns when they have.
    if (state.step == 0 && state.unread > 0) return kNever;
    double at = state.step == 0 ? state.readAt : 0;
    for (uint32_t i = 0; i < step.nFrom; ++i) {
      const StepPeer& peer = p.peers[step.firstPeer + i];
      int32_t wanted = peer.messages, m = fifo(member, peer.edge, lane).head;
      for (; m >= 0 && wanted > 0; m = messages_[static_cast<size_t>(m)].next) {
        wanted -= messages_[static_cast<size_t>(m)].left;
        at = std::max(at, messages_[static_cast<size_t>(m)].arrival);
      }
      if (wanted > 0) return kNever;
    }
    return at;
  }

  /// The first of a rank's lanes that can go on at `now`; sets `soonest` to when one can, where none can.
  int laneReady(int32_t member, double now, double* soonest) {
    for (size_t i = 0; i < nLanes_; ++i) {
      const size_t lane = (lastLane_[static_cast<size_t>(member)] + i) % nLanes_;
      const double at = readyAt(member, lane);
      if (at <= now) return static_cast<int>(lane);
      *soonest = std::min(*soonest, at);
    }
    return -1;
  }

  /// One step of the rank that has the core, or of the next that can go on.
  void turn(int32_t id) {
    Core& core = cores_[static_cast<size_t>(id)];
    double soonest = kNever, now = core.clock;
    // While nobody can go on, the core goes round, though not strictly in turn: whoever can go on waits for about a
    // round (chains of 8 ranks on 2 cores: 2.1 to 2.6 us a step of a ring).
    if (core.idle) now += prices_.handOverUs * static_cast<double>(core.members.size() - 1);
    for (size_t i = 0; i < core.members.size(); ++i) {
      const size_t index = (core.current + i) % core.members.size();
      if (i > 0 && !core.idle) now += prices_.handOverUs;
      const int lane = laneReady(core.members[index], now, &soonest);
      if (lane < 0) continue;
      core.current = index;
      core.idle = false;
      const double before = core.clock;
      core.clock = now;
      execute(core.members[index], static_cast<size_t>(lane), &core.clock);
      core.busyUs += core.clock - before;
      return wake(id, core.clock);
    }
    core.idle = true;
    if (soonest < kNever) wake(id, soonest);
  }

  void execute(int32_t member, size_t lane, double* clock) {
    LaneState& state = lanes_[static_cast<size_t>(member) * nLanes_ + lane];
    const LaneProgram& p = program(member, lane);
    lastLane_[static_cast<size_t>(member)] = lane;
    if (!p.steps.empty()) {
      const Step& step = p.steps[state.step];
      double work =
          step.reduced * chunkBytes_ * prices_.reduceUsPerByte + step.copied * chunkBytes_ * prices_.copyUsPerByte;
      read_.clear();
      for (uint32_t i = 0; i < step.nFrom; ++i)
        work += take(member, lane, p.peers[step.firstPeer + i], step, /*first=*/i == 0);
      *clock += work * prices_.stretch;
      for (const auto& [sender, latencyUs] : read_) acknowledge(sender, lane, *clock + latencyUs);
      for (uint32_t i = 0; i < step.nTo; ++i) {
        send(member, lane, p.peers[step.firstPeer + step.nFrom + i], step, /*first=*/i == 0, clock);
      }
    }
    if (!p.steps.empty() && ++state.step < p.steps.size()) return;
    state.step = 0;
    double& end = ends_[static_cast<size_t>(state.pass++)];
    end = std::max(end, *clock);
  }

  const MessagePrice& price(const Message& m) const { return priceOf(prices_, m.direct, m.here, m.level); }

  /// What the receiver does for a message.
  double take(int32_t member, size_t lane, const StepPeer& peer, const Step& step, bool first) {
    Fifo& from = fifo(member, peer.edge, lane);
    double work = 0;
    if (first && step.scattered > 0) {
      work += step.scattered * chunkBytes_ * price(messages_[static_cast<size_t>(from.head)]).gatherUsPerByte;
    }
    for (int32_t wanted = peer.messages; wanted > 0;) {
      const int32_t id = from.head;
      Message& m = messages_[static_cast<size_t>(id)];
      const int32_t taken = std::min(wanted, m.left);
      wanted -= taken;
      m.left -= taken;
      if (m.left > 0) break;
      const MessagePrice& way = price(m);
      if (m.direct) read_.emplace_back(m.from, way.latencyUs);
      work += m.count * way.receiveUs + m.bytes * receiveUsPerByte(way, step.reduced > 0, first, m.fresh && !m.here);
      from.head = m.next;
      if (from.head < 0) from.tail = -1;
      m.next = free_;
      free_ = id;
    }
    return work;
  }

  void acknowledge(int32_t sender, size_t lane, double at) {
    LaneState& state = lanes_[static_cast<size_t>(sender) * nLanes_ + lane];
    state.readAt = std::max(state.readAt, at);
    if (--state.unread == 0 && state.step == 0) wake(coreOf_[static_cast<size_t>(sender)], state.readAt);
  }

  void send(int32_t member, size_t lane, const StepPeer& peer, const Step& step, bool first, double* clock) {
    const RoleEdge& edge = roles_.edges[static_cast<size_t>(member)][static_cast<size_t>(peer.edge)];
    const uint8_t level = bound_.levels[static_cast<size_t>(member)][static_cast<size_t>(peer.edge)];
    const double bytes = step.chunks * chunkBytes_;
    const bool here = shareCore(roles_, coreOf_, static_cast<size_t>(member), static_cast<size_t>(edge.member));
    const bool direct = isDirect(prices_, step, peer, chunkBytes_);
    Message m{0, bytes, direct, step.fresh && direct, here, level, peer.messages, peer.messages, -1};
    const MessagePrice& way = price(m);
    const double begin = *clock;
    const double count = peer.messages;  // that go one by one
    *clock += sendWork(way, step, peer, first, chunkBytes_) * prices_.stretch;
    m.from = member;
    m.to = edge.member;
    if (m.direct) ++lanes_[static_cast<size_t>(member) * nLanes_ + lane].unread;
    const double latencyUs = count * (way.latencyUs + edge.switchesUs);
    m.arrival = *clock + latencyUs;
    if (way.wireUsPerByte <= 0 || bytes <= 0) {
      push(&fifo(edge.member, edge.toEdge, lane), m);
      return wake(coreOf_[static_cast<size_t>(edge.member)], m.arrival);
    }
    // The wire carries while the sender copies; what waits for the other wire waits between the two.
    double& out = outFree_[static_cast<size_t>(bound_.groups[static_cast<size_t>(member)][level])];
    const double begins = std::max(begin + way.sendUs, out);
    out = begins + bytes * way.wireUsPerByte;
    wireUs_[2 * static_cast<size_t>(bound_.groups[static_cast<size_t>(member)][level])] += bytes * way.wireUsPerByte;
    m.least = m.arrival;
    m.arrival = kNever;
    m.afterWireUs = latencyUs;
    m.wireUs = bytes * way.wireUsPerByte;
    at({begins, -1 - push(&fifo(edge.member, edge.toEdge, lane), m)});
  }

  /// The message comes to the wire into the receiver's group.
  void comeIn(int32_t id, double now) {
    Message& m = messages_[static_cast<size_t>(id)];
    double& in = inFree_[static_cast<size_t>(bound_.groups[static_cast<size_t>(m.to)][m.level])];
    in = std::max(now, in) + m.wireUs;
    wireUs_[2 * static_cast<size_t>(bound_.groups[static_cast<size_t>(m.to)][m.level]) + 1] += m.wireUs;
    m.arrival = std::max(m.least, in + m.afterWireUs);
    wake(coreOf_[static_cast<size_t>(m.to)], m.arrival);
  }

  void at(Event event) {
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  int32_t push(Fifo* to, const Message& m) {
    int32_t id = free_;
    if (id < 0) {
      id = static_cast<int32_t>(messages_.size());
      messages_.push_back(m);
    } else {
      free_ = messages_[static_cast<size_t>(id)].next;
      messages_[static_cast<size_t>(id)] = m;
    }
    (to->tail >= 0 ? messages_[static_cast<size_t>(to->tail)].next : to->head) = id;
    to->tail = id;
    return id;
  }

  const Bound& bound_;
  const Roles& roles_;
  const Prices& prices_;
  const double chunkBytes_;
  const int passes_;
  size_t nLanes_ = 0;
  std::vector<size_t> fifoBase_;
  std::vector<Fifo> fifos_;
  std::vector<Message> messages_;
  int32_t free_ = -1;
  std::vector<LaneState> lanes_;  // [member][lane]
  std::vector<size_t> lastLane_;  // [member]
  std::vector<Core> cores_;
  std::vector<int32_t> coreOf_;                   // [member]
  std::vector<double> outFree_, inFree_;          // [group]: when its wires are free again
  std::vector<double> wireUs_;                    // [2 * group]: out, in
  std::vector<std::pair<int32_t, double>> read_;  // by the step that is executed: whose messages, and their way back
  std::vector<Event> heap_;
  double ends_[kMostPasses] = {};
};

}  // namespace

size_t Levels::between(int a, int b) const {
  for (size_t level = 0; level < groupOf.size(); ++level) {
    if (groupOf[level][static_cast<size_t>(a)] == groupOf[level][static_cast<size_t>(b)]) return level;
  }
  return groupOf.size();
}

Bound bind(Roles roles, const Levels& levels) {
  Bound bound;
  bound.levels.resize(roles.edges.size());
  bound.groups.resize(roles.edges.size());
  // Wires out of a group of the level below; at level 0 everyone has wires of its own.
  for (size_t m = 0; m < roles.rankOf.size(); ++m) bound.groups[m][0] = bound.nGroups++;
  for (size_t level = 1; level <= levels.groupOf.size(); ++level) {
    int32_t most = -1;
    for (size_t m = 0; m < roles.rankOf.size(); ++m) {
      const int32_t group = levels.groupOf[level - 1][static_cast<size_t>(roles.rankOf[m])];
      bound.groups[m][level] = bound.nGroups + group;
      most = std::max(most, group);
    }
    bound.nGroups += most + 1;
  }
  for (size_t m = 0; m < roles.edges.size(); ++m) {
    for (const RoleEdge& e : roles.edges[m]) {
      bound.levels[m].push_back(static_cast<uint8_t>(levels.between(roles.rankOf[m], e.rank)));
    }
    for (const LaneProgram& lane : *roles.programs[m]->lanes) bound.nSteps += lane.steps.size();
  }
  bound.nearChannels = nearChannelsOf(roles);
  bound.roles = std::move(roles);
  return bound;
}

Load loadOf(const Bound& bound, const Prices& prices, double chunkBytes) {
  const Roles& roles = bound.roles;
  const std::vector<int32_t> coreOf = coresOf(roles, prices);
  std::vector<double> busy(coreOf.size()), wires(2 * static_cast<size_t>(bound.nGroups));
  const double received = combines(roles) ? kFurtherOperands : 1;  // at least
  for (size_t m = 0; m < roles.programs.size(); ++m) {
    double& own = busy[static_cast<size_t>(coreOf[m])];
    for (const LaneProgram& lane : *roles.programs[m]->lanes) {
      for (const Step& step : lane.steps) {
        own += (step.reduced * prices.reduceUsPerByte + step.copied * prices.copyUsPerByte) * chunkBytes;
        const double bytes = step.chunks * chunkBytes;
        for (uint32_t i = 0; i < step.nTo; ++i) {
          const StepPeer& peer = lane.peers[step.firstPeer + step.nFrom + i];
          const size_t level = bound.levels[m][static_cast<size_t>(peer.edge)];
          const auto to = static_cast<size_t>(roles.edges[m][static_cast<size_t>(peer.edge)].member);
          const bool here = shareCore(roles, coreOf, m, to);
          const bool direct = isDirect(prices, step, peer, chunkBytes);
          const MessagePrice& way = priceOf(prices, direct, here, level);
          own += sendWork(way, step, peer, /*first=*/i == 0, chunkBytes);
          busy[static_cast<size_t>(coreOf[to])] += peer.messages * way.receiveUs +
                                                   received * bytes * way.receiveUsPerByte +
                                                   (step.fresh && direct && !here ? bytes * way.freshUsPerByte : 0);
          wires[2 * static_cast<size_t>(bound.groups[m][level])] += bytes * way.wireUsPerByte;
          wires[2 * static_cast<size_t>(bound.groups[to][level]) + 1] += bytes * way.wireUsPerByte;
        }
      }
    }
  }
  const auto most = [](const std::vector<double>& all) { return all.empty() ? 0 : *std::ranges::max_element(all); };
  return {most(busy) * prices.stretch, most(wires)};
}

Result<Estimate> estimate(const Bound& bound, const Prices& prices, double chunkBytes, int passes) {
  return EstimateRun(bound, prices, chunkBytes, std::clamp(passes, 1, kMostPasses)).run();
}

}  // namespace tutti::sim
