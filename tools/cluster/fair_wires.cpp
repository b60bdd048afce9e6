#include "tools/cluster/fair_wires.hpp"

#include <utility>

#include "src/sim/engine.hpp"
#include "tools/cluster/flows.hpp"

namespace tutti::sim {
namespace {

double perByte(double gbps) { return gbps > 0 ? 1 / (gbps * 1e3) : 0; }

/// What a protocol's messages cost by where the receiver is, and where any is that has read what is written.
struct ProtocolPrices {
  MessagePrice of[2][2];  // [receiver on another core][written to what another core has read]

  explicit ProtocolPrices(const ProtocolSpec& p) {
    for (const int across : {0, 1}) {
      for (const int writes : {0, 1}) {
        MessagePrice& price = of[across][writes];
        price.sendUs = p.overheadUs;
        price.latencyUs = p.latencyUs;
        price.receiveUs = p.receiveUs + (across > 0 ? p.acrossUs : 0);
        price.sendUsPerByte = perByte(p.copyGBps) + (writes > 0 ? perByte(p.acrossWriteGBps) : 0);
        price.receiveUsPerByte = perByte(p.copyGBps) + (across > 0 ? perByte(p.acrossGBps) : 0);
        price.gatherUsPerByte = perByte(p.gatherGBps);
        if (p.once) price.onceFromBytes = 0;
      }
    }
  }
};

/// The protocols between members of a node, or of different nodes.
struct Protocols {
  std::vector<ProtocolSpec> specs;
  std::vector<bool> allowed;
  std::vector<ProtocolPrices> prices;

  Protocols(const std::vector<ProtocolSpec>& list, const std::string& only)
      : specs(list), prices(list.begin(), list.end()) {
    const bool known = std::any_of(list.begin(), list.end(), [&](const auto& p) { return p.name == only; });
    for (const ProtocolSpec& p : list) allowed.push_back(!known || p.name == only);
  }

  /// Of one message alone on a way of which it gets that share.  hidden: others are on the way while it arrives.
  static double messageUs(const ProtocolSpec& p, double bytes, double gbps, bool hidden) {
    double rate = gbps * p.efficiency;
    if (p.mostGBps > 0) rate = std::min(rate, p.mostGBps);
    const double copiesUs = p.copyGBps > 0 ? 2 * bytes / (p.copyGBps * 1e3) : 0;
    return p.overheadUs + (hidden ? 0 : p.latencyUs) + p.receiveUs + copiesUs + bytes / (rate * 1e3);
  }

  size_t fastest(double bytes, double gbps, bool hidden) const {
    size_t best = specs.size() - 1;
    double bestUs = kNever;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!allowed[i] || (specs[i].mostBytes > 0 && bytes > specs[i].mostBytes)) continue;
      const double us = messageUs(specs[i], bytes, gbps, hidden);
      if (us >= bestUs) continue;
      bestUs = us;
      best = i;
    }
    return best;
  }
};

class FairWires {
 public:
  static constexpr bool kAhead = true;
  using Edge = LinkEdge;
  using Engine = sim::Engine<FairWires>;
  struct Transit {
    double ready = 0;
    const ProtocolSpec* protocol = nullptr;
  };

  explicit FairWires(const FairWorkload& load)
      : load_(load),
        flows_(load.capacities),
        near_(load.near, load.protocol),
        far_(load.far, load.protocol),
        lanes_(load.lanes.size() * static_cast<size_t>(load.nLanes())) {
    linkBytes_.resize(load.capacities.size());
  }

  const MessagePrice& price(const Step& step, const StepPeer* to, uint32_t i, int32_t member, Engine::Message* m) {
    const LinkEdge& edge = *m->edge;
    const Protocols& protocols = edge.far ? far_ : near_;
    // Lanes do the same at the same time and share the way; or start apart, and use it while others wait.
    const size_t best = protocols.fastest(m->bytes, edge.mostGBps / load_.nLanes(), load_.staggered);
    const ProtocolSpec& p = protocols.specs[best];
    m->transit.protocol = &p;
    const bool across = onOtherCore(member, edge.to);
    bool writes = across;
    const LinkEdge* first = m->edge - to[i].edge;
    for (uint32_t k = 0; p.once && p.acrossWriteGBps > 0 && !writes && k < step.nTo; ++k) {
      writes = onOtherCore(member, first[to[k].edge].to);
    }
    return protocols.prices[best].of[across ? 1 : 0][writes ? 1 : 0];
  }

  void send(Engine& engine, int32_t id, double /*begin*/, double ready) {
    Engine::Message& m = engine.message(id);
    m.transit.ready = ready;
    if (MessageRecord* record = engine.recordOf(m)) {
      record->protocol = static_cast<int32_t>(m.transit.protocol - (m.edge->far ? far_ : near_).specs.data());
    }
    if (busy_.empty()) busy_.resize(engine.nFifos());
    Lane& lane = lanes_[static_cast<size_t>(m.sender)];
    if (!mayBegin(engine, lane, m)) return engine.append(&lane.unsent, id);
    schedule(engine, id, m.transit.ready);
  }

  /// A message begins (version 0), or a transfer has ended as it was told then.
  void happen(Engine& engine, int32_t what, uint32_t version, double now) {
    if (version == 0) return begin(engine, what, now);
    if (!flows_.current({what, version, fromUs(now)})) return;
    flows_.finish(what);
    leave(engine, messageOfFlow_[static_cast<size_t>(what)], now);
  }

  void settle(Engine& engine, double now) {
    if (flows_.settled()) return;
    for (const Flows::Ending& e : flows_.settle(fromUs(now))) engine.at(toUs(e.at), e.flow, e.version);
  }

  std::vector<double> linkBytes() { return std::move(linkBytes_); }

 private:
  struct Lane {
    Engine::Queue unsent;
    int32_t onWire = 0;
  };

  bool onOtherCore(int32_t a, int32_t b) const {
    return !load_.coreOf.empty() && load_.coreOf[static_cast<size_t>(a)] != load_.coreOf[static_cast<size_t>(b)];
  }

  bool mayBegin(const Engine& engine, const Lane& lane, const Engine::Message& m) const {
    return lane.onWire < load_.inFlight && !busy_[engine.fifoOf(m)];
  }

  void schedule(Engine& engine, int32_t id, double at) {
    const Engine::Message& m = engine.message(id);
    ++lanes_[static_cast<size_t>(m.sender)].onWire;
    busy_[engine.fifoOf(m)] = true;
    engine.at(toUs(fromUs(at)), id);  // what happens at the same time is to be seen to be so
  }

  void begin(Engine& engine, int32_t id, double now) {
    const Engine::Message& m = engine.message(id);
    const LinkEdge& edge = *m.edge;
    const ProtocolSpec& p = *m.transit.protocol;
    if (MessageRecord* record = engine.recordOf(m)) record->start = record->behind < 0 ? m.transit.ready : now;
    // Processors that copy from memory to memory are all the wire there is.
    const double wireBytes = p.copyGBps > 0 && edge.nLinks == 0 ? 0 : m.bytes / p.efficiency;
    if (wireBytes <= 0) return leave(engine, id, now);
    const double mostGBps = p.mostGBps > 0 ? std::min(edge.mostGBps, p.mostGBps / p.efficiency) : edge.mostGBps;
    for (const int32_t link : load_.linksOf(edge)) linkBytes_[static_cast<size_t>(link)] += wireBytes;
    const auto flow = static_cast<size_t>(flows_.start(load_.linksOf(edge), wireBytes, mostGBps, fromUs(now)));
    if (flow >= messageOfFlow_.size()) messageOfFlow_.resize(flow + 1);
    messageOfFlow_[flow] = id;
  }

  /// The last byte has left: it is on its way, and the lane's next message begins.
  void leave(Engine& engine, int32_t id, double now) {
    const Engine::Message& m = engine.message(id);
    const int32_t lane = m.sender, record = m.record;
    const double end = std::max(now, m.transit.ready);  // `now` is in whole picoseconds
    const double arrival = end + m.price->latencyUs + m.edge->switchesUs;
    if (MessageRecord* r = engine.recordOf(m)) {
      r->end = end;
      r->arrival = arrival;
    }
    --lanes_[static_cast<size_t>(lane)].onWire;
    busy_[engine.fifoOf(m)] = false;
    engine.enqueue(id);
    sendNext(engine, lane, record, now);
    engine.arrive(id, arrival);
  }

  /// The first of the unsent messages whose peer has none on the wire, if the lane may have one more there.
  void sendNext(Engine& engine, int32_t id, int32_t behind, double now) {
    Lane& lane = lanes_[static_cast<size_t>(id)];
    for (int32_t before = -1, number = lane.unsent.head; number >= 0 && lane.onWire < load_.inFlight;) {
      Engine::Message& m = engine.message(number);
      const int32_t next = m.next;
      if (!mayBegin(engine, lane, m)) {
        before = std::exchange(number, next);
        continue;
      }
      (before >= 0 ? engine.message(before).next : lane.unsent.head) = next;
      if (next < 0) lane.unsent.tail = before;
      MessageRecord* record = engine.recordOf(m);
      if (record != nullptr && fromUs(m.transit.ready) < fromUs(now)) record->behind = behind;
      schedule(engine, number, std::max(m.transit.ready, now));
      number = next;
    }
  }

  const FairWorkload& load_;
  Flows flows_;
  const Protocols near_, far_;
  std::vector<Lane> lanes_;
  std::vector<bool> busy_;  // [FIFO]: one of its messages is on the wire
  std::vector<int32_t> messageOfFlow_;
  std::vector<double> linkBytes_;
};

}  // namespace

Result<Run> runFair(const FairWorkload& load, int loops, int loopsOfCall, double chunkBytes, bool record) {
  FairWires wires(load);
  TUTTI_ASSIGN(Run run,
               Engine<FairWires>(load, load.prices, load.coreOf, &wires).run(loops, loopsOfCall, chunkBytes, record));
  run.linkBytes = wires.linkBytes();
  return run;
}

}  // namespace tutti::sim
