// One member for a node whose ranks are turned from channel to channel; see bindTurned.
//
// When all ranks of a node move up by one place and the channels with them, nothing has changed.  So what rank l does
// in channel c at some time is what rank 0 does in channel c - l, and it is enough to simulate what one rank does in
// all channels.  A link of the node becomes the class of links that it is moved to; a class has the bandwidth of one
// link, and carries what one link carries.
#include <algorithm>

#include "tools/cluster/job.hpp"
#include "tools/cluster/task.hpp"

namespace tutti::sim {
namespace {

/// Which links of a node are one, seen from its ranks in turn.
class Orbits {
 public:
  explicit Orbits(const Network& network) : network_(network), g_(network.cluster().ranksPerNode) {
    next_.assign(static_cast<size_t>(network.linksPerNode()), -1);
    whole_ = learn();
    for (size_t link = 0; whole_ && link < next_.size(); ++link) whole_ = closes(static_cast<int>(link));
  }
  bool whole() const { return whole_; }
  /// A link that stands for the class, of all nodes that are alike.
  int of(int link) const {
    const int first = link % network_.linksPerNode();
    int least = first;
    for (int l = next_[static_cast<size_t>(first)]; l >= 0 && l != first; l = next_[static_cast<size_t>(l)]) {
      least = std::min(least, l);
    }
    return least;
  }

 private:
  bool moves(Place from, Place to, Place fromNext, Place toNext) {
    const auto route = network_.route(from, to), next = network_.route(fromNext, toNext);
    if (!route.ok() || !next.ok() || route->links.size() != next->links.size()) return false;
    for (size_t i = 0; i < route->links.size(); ++i) {
      if (network_.inFabric(route->links[i])) continue;
      const int a = route->links[i] % network_.linksPerNode(), b = next->links[i] % network_.linksPerNode();
      int& known = next_[static_cast<size_t>(a)];
      if (known >= 0 && known != b) return false;
      if (std::abs(network_.capacity(a) - network_.capacity(b)) > 1e-9 * network_.capacity(a)) return false;
      known = b;
    }
    return true;
  }

  /// From every way inside the node, and every rank's way to the next node.
  bool learn() {
    for (int a = 0; a < g_; ++a) {
      for (int b = 0; b < g_; ++b) {
        const int a1 = (a + 1) % g_, b1 = (b + 1) % g_;
        if (!moves({0, a}, {0, b}, {0, a1}, {0, b1})) return false;
        if (network_.cluster().nodes > 1 && !moves({0, a}, {1, b}, {0, a1}, {1, b1})) return false;
      }
    }
    return true;
  }

  /// Going on and on comes back to where it began: no two links are moved to one.
  bool closes(int link) const {
    if (next_[static_cast<size_t>(link)] < 0) return true;
    int at = link;
    for (size_t steps = 0; steps <= next_.size(); ++steps) {
      at = next_[static_cast<size_t>(at)];
      if (at == link) return true;
      if (at < 0) return false;
    }
    return false;
  }

  const Network& network_;
  const int g_;
  bool whole_ = false;
  std::vector<int> next_;  // [link of a node]: where it is moved to; -1 if no way leads over it
};

class Turner {
 public:
  Turner(const Network& network, const Roles& roles)
      : network_(network),
        roles_(roles),
        orbits_(network),
        perNode_(network.cluster().ranksPerNode),
        job_(beginJob(network, roles, perNode_)) {
    const int links = network.linksPerNode();
    for (int link = 0; link < links; ++link) orbitOf_.push_back(orbits_.whole() ? orbits_.of(link) : link);
  }

  std::optional<Job> bind() {
    if (!orbits_.whole()) return std::nullopt;
    const size_t nodes = roles_.firstOf.size() - 1;
    for (size_t node = 0; node < nodes; ++node) addNode(static_cast<int>(node));
    for (size_t role = 0; role < roles_.programs.size(); ++role) {
      if (!addEdges(static_cast<int>(role))) return std::nullopt;
    }
    return std::move(job_);
  }

 private:
  void addNode(int node) {
    const int first = roles_.firstOf[static_cast<size_t>(node)];
    job_.rankOf.push_back(roles_.rankOf[static_cast<size_t>(first)]);
    job_.nRanksOf.push_back(roles_.nRanksOf[static_cast<size_t>(first)] * perNode_);
    for (int link = 0; link < network_.linksPerNode(); ++link) job_.capacities.push_back(network_.capacity(link));
    auto& lanes = job_.lanes.emplace_back();
    job_.edges.emplace_back();
    int32_t firstEdge = 0;
    for (int role = first; role < first + perNode_; ++role) {
      const Program& program = *roles_.programs[static_cast<size_t>(role)];
      firstEdge_.push_back(firstEdge);
      for (size_t lane = 0; lane < program.lanes->size(); ++lane) {
        lanes.push_back({program.lanes, static_cast<int32_t>(lane), firstEdge});
      }
      firstEdge += static_cast<int32_t>(program.edges.size());
    }
  }

  bool addEdges(int role) {
    const int node = roles_.nodeOf[static_cast<size_t>(role)];
    for (const RoleEdge& e : roles_.edges[static_cast<size_t>(role)]) {
      const Place from = roles_.places[static_cast<size_t>(roles_.rankOf[static_cast<size_t>(role)])];
      const auto route = network_.route(from, roles_.places[static_cast<size_t>(e.rank)]);
      if (!route.ok()) return false;
      const int there = roles_.nodeOf[static_cast<size_t>(e.member)];
      LinkEdge edge;
      edge.to = there;
      edge.toChannel = e.member - roles_.firstOf[static_cast<size_t>(there)];
      edge.toEdge = firstEdge_[static_cast<size_t>(e.member)] + e.toEdge;
      edge.firstLink = static_cast<uint32_t>(job_.links.size());
      edge.mostGBps = route->mostGBps;
      edge.switchesUs = e.switchesUs;
      edge.far = route->far;
      for (const int link : route->links) {
        if (network_.inFabric(link)) continue;
        const int perNode = network_.linksPerNode();
        const int at = link / perNode == from.node ? node : there;
        const int32_t id = at * perNode + orbitOf_[static_cast<size_t>(link % perNode)];
        const auto begin = job_.links.begin() + edge.firstLink;
        if (std::find(begin, job_.links.end(), id) != job_.links.end()) return false;  // twice over one class
        job_.links.push_back(id);
      }
      edge.nLinks = static_cast<uint32_t>(job_.links.size()) - edge.firstLink;
      job_.edges[static_cast<size_t>(node)].push_back(edge);
    }
    return true;
  }

  const Network& network_;
  const Roles& roles_;
  const Orbits orbits_;
  const int perNode_;
  Job job_;
  std::vector<int> orbitOf_;        // [link of a node]
  std::vector<int32_t> firstEdge_;  // [role]: of its edges among the member's
};

}  // namespace

std::optional<Job> bindTurned(const Network& network, const Roles& roles) { return Turner(network, roles).bind(); }

}  // namespace tutti::sim
