#include "src/sim/estimate.hpp"

#include <algorithm>

#include "src/sim/engine.hpp"

namespace tutti::sim {
namespace {

/// [member]: the core that it is on, by the number of the member among those that share cores: of its node, or all.
/// Nobody binds ranks of several nodes to cores, so the same rank of every node is not on the same core.
std::vector<int32_t> coresOf(const Roles& roles, const Prices& prices) {
  std::vector<std::vector<size_t>> nodes;
  for (size_t m = 0; m < roles.programs.size(); ++m) {
    const int ofNode = roles.classes ? roles.nodeOf[m] : roles.places[m].node;
    const auto node = static_cast<size_t>(prices.nodesShareCores ? 0 : ofNode);
    if (node >= nodes.size()) nodes.resize(node + 1);
    nodes[node].push_back(m);
  }
  std::vector<int32_t> coreOf(roles.programs.size());
  size_t base = 0;
  for (const std::vector<size_t>& members : nodes) {
    const size_t here = prices.cores > 0 ? static_cast<size_t>(prices.cores) : members.size();
    for (size_t i = 0; i < members.size(); ++i) {
      const size_t turned = prices.nodesShareCores ? i / here : 0;
      coreOf[members[i]] = static_cast<int32_t>(base + (i + turned) % here);
    }
    base += std::min(here, members.size());
  }
  return coreOf;
}

const MessagePrice& priceOf(const Prices& prices, bool direct, bool here, size_t level) {
  return (direct ? prices.direct : here ? prices.here : prices.copied)[level];
}

/// Whether what a step sends to a peer is read where it lies.
bool isDirect(const Prices& prices, const Step& step, const StepPeer& peer, double chunkBytes) {
  return step.direct && step.chunks * chunkBytes >= peer.messages * prices.leastDirectBytes;
}

/// Whether two members are known to share a core: what stands for a class may be on any.
bool shareCore(const Roles& roles, const std::vector<int32_t>& coreOf, size_t a, size_t b) {
  return !roles.classes && coreOf[a] == coreOf[b];
}

bool combines(const Roles& roles) {
  for (const auto& program : roles.programs) {
    for (const LaneProgram& lane : *program->lanes) {
      if (std::ranges::any_of(lane.steps, [](const Step& step) { return step.reduced > 0; })) return true;
    }
  }
  return false;
}

/// Wires at both ends of a message, out of the sender's group and into the receiver's, that messages take in turn: out
/// in the order of the work for them, in in the order in which they come.
class WiresInTurn {
 public:
  static constexpr bool kAhead = false;
  using Edge = LevelEdge;
  struct Transit {
    double leastArrival = 0, afterWireUs = 0;
  };
  using Engine = sim::Engine<WiresInTurn>;

  WiresInTurn(const Bound& bound, const Prices& prices, const std::vector<int32_t>& coreOf, double chunkBytes)
      : bound_(bound), prices_(prices), coreOf_(coreOf), chunkBytes_(chunkBytes) {
    const auto groups = static_cast<size_t>(bound.nGroups);
    outFree_.resize(groups);
    inFree_.resize(groups);
    busyUs_.resize(2 * groups);
  }

  const MessagePrice& price(const Step& step, const StepPeer* to, uint32_t i, int32_t member,
                            Engine::Message* m) const {
    const bool here = shareCore(bound_.roles, coreOf_, static_cast<size_t>(member), static_cast<size_t>(m->edge->to));
    m->direct = isDirect(prices_, step, to[i], chunkBytes_);
    m->fresh = m->direct && !here ? freshPart(step) : 0;
    return priceOf(prices_, m->direct, here, m->edge->level);
  }

  double lookUs(const Edge& edge) const { return prices_.copied[edge.level].lookUs; }

  void send(Engine& engine, int32_t id, double begin, double ready) {
    Engine::Message& m = engine.message(id);
    const MessagePrice& price = *m.price;
    const double count = m.count;  // that go one by one
    const double latencyUs = count * (price.latencyUs + m.edge->switchesUs);
    engine.enqueue(id);
    if (price.wireUsPerByte <= 0 || m.bytes <= 0) return engine.arrive(id, ready + latencyUs);
    // The wire carries while the sender copies; what waits for the other wire waits between the two.
    const size_t group = groupOf(engine.memberOf(m), m);
    const double wireUs = m.bytes * price.wireUsPerByte;
    const double begins = std::max(begin + price.sendUs, outFree_[group]);
    outFree_[group] = begins + wireUs;
    busyUs_[2 * group] += wireUs;
    m.transit = {ready + latencyUs, latencyUs};
    engine.at(begins, id);
  }

  /// The message comes to the wire into the receiver's group.
  void happen(Engine& engine, int32_t id, uint32_t /*version*/, double now) {
    const Engine::Message& m = engine.message(id);
    const size_t group = groupOf(m.edge->to, m);
    const double wireUs = m.bytes * m.price->wireUsPerByte;
    inFree_[group] = std::max(now, inFree_[group]) + wireUs;
    busyUs_[2 * group + 1] += wireUs;
    engine.arrive(id, std::max(m.transit.leastArrival, inFree_[group] + m.transit.afterWireUs));
  }

  void settle(Engine&, double) {}

  double busiestUs() const { return busyUs_.empty() ? 0 : *std::ranges::max_element(busyUs_); }

 private:
  size_t groupOf(int32_t member, const Engine::Message& m) const {
    return static_cast<size_t>(bound_.groups[static_cast<size_t>(member)][m.edge->level]);
  }

  const Bound& bound_;
  const Prices& prices_;
  const std::vector<int32_t>& coreOf_;
  const double chunkBytes_;
  std::vector<double> outFree_, inFree_;  // [group]: when its wires are free again
  std::vector<double> busyUs_;            // [2 * group]: out, in
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
    std::vector<LevelEdge>& edges = bound.edges.emplace_back();
    for (const RoleEdge& e : roles.edges[m]) {
      const size_t level = levels.between(roles.rankOf[m], e.rank);
      edges.push_back({{e.member, e.toEdge, 0, e.switchesUs}, static_cast<uint8_t>(level)});
    }
    std::vector<MemberLane>& lanes = bound.lanes.emplace_back();
    const std::shared_ptr<const Lanes>& all = roles.programs[m]->lanes;
    for (size_t lane = 0; lane < all->size(); ++lane) lanes.push_back({all, static_cast<int32_t>(lane), 0});
  }
  bound.rankOf = roles.rankOf;
  bound.nearEndpoints = nearEndpointsOf(roles);
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
        // Operands that come as messages may cost less than the combination of others (MessagePrice::furtherUsPerByte).
        const float reduced = step.nFrom > 1 ? 0 : step.reduced;
        own += (reduced * prices.reduceUsPerByte + step.copied * prices.copyUsPerByte) * chunkBytes;
        const double bytes = step.chunks * chunkBytes;
        for (uint32_t i = 0; i < step.nTo; ++i) {
          const StepPeer& peer = lane.peers[step.firstPeer + step.nFrom + i];
          const LevelEdge& edge = bound.edges[m][static_cast<size_t>(peer.edge)];
          const auto to = static_cast<size_t>(edge.to);
          const size_t level = edge.level;
          const bool here = shareCore(roles, coreOf, m, to);
          const bool direct = isDirect(prices, step, peer, chunkBytes);
          const MessagePrice& way = priceOf(prices, direct, here, level);
          own += sendWork(way, step, peer, /*first=*/i == 0, chunkBytes);
          busy[static_cast<size_t>(coreOf[to])] += peer.messages * way.receiveUs +
                                                   received * bytes * way.receiveUsPerByte +
                                                   (direct && !here ? bytes * freshPart(step) * way.freshUsPerByte : 0);
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
  const std::vector<int32_t> coreOf = coresOf(bound.roles, prices);
  WiresInTurn wires(bound, prices, coreOf, chunkBytes);
  TUTTI_ASSIGN(const Run run, Engine<WiresInTurn>(bound, prices, coreOf, &wires).run(passes, 1, chunkBytes, false));
  const double firstUs = run.ends.front();
  const double nextUs = passes > 1 ? (run.ends.back() - firstUs) / (passes - 1) : firstUs;
  return Estimate{firstUs, nextUs, run.busyUs / passes, wires.busiestUs() / passes};
}

}  // namespace tutti::sim
