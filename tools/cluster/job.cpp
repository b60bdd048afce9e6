#include "tools/cluster/job.hpp"

#include <algorithm>

#include "tools/cluster/task.hpp"

namespace tutti::sim {
namespace {

class Binder {
 public:
  Binder(const Network& network, const Roles& roles, int nChannels)
      : network_(network), roles_(roles), job_(beginJob(network, roles, nChannels)) {}

  Result<Job> bind() {
    job_.rankOf = roles_.rankOf;
    job_.nRanksOf = roles_.nRanksOf;
    setCapacities();
    const int n = static_cast<int>(roles_.programs.size());
    job_.lanes.resize(static_cast<size_t>(n));
    job_.edges.resize(static_cast<size_t>(n));
    for (int member = 0; member < n; ++member) addLanes(member);
    for (int member = 0; member < n; ++member) {
      for (int channel = 0; channel < job_.nChannels; ++channel) TUTTI_TRY(addEdges(member, channel));
    }
    if (network_.cluster().cores > 0) shareCores();
    return std::move(job_);
  }

 private:
  void shareCores() {
    const int each = network_.cluster().cores;
    for (size_t member = 0; member < roles_.rankOf.size(); ++member) {
      const Place place = roles_.places[static_cast<size_t>(roles_.rankOf[member])];
      job_.coreOf.push_back(roles_.nodeOf[member] * each + place.local % each);
    }
  }

  void setCapacities() {
    if (!roles_.classes) {
      job_.capacities = network_.capacities();
      for (double& gbps : job_.capacities) gbps = std::max(gbps, 1e-9);  // lost links carry nothing anyway
      return;
    }
    const int perNode = network_.linksPerNode();
    for (size_t k = 0; k + 1 < roles_.firstOf.size(); ++k) {
      for (int link = 0; link < perNode; ++link) job_.capacities.push_back(network_.capacity(link));
    }
  }

  int sizeOfNode(int node) const {
    return roles_.firstOf[static_cast<size_t>(node) + 1] - roles_.firstOf[static_cast<size_t>(node)];
  }
  /// Whose role in the plain schedule a member has in a channel, and who has a role.
  int turned(int member, int by) const {
    const int node = roles_.nodeOf[static_cast<size_t>(member)];
    const int first = roles_.firstOf[static_cast<size_t>(node)], size = sizeOfNode(node);
    return first + ((member - first + by) % size + size) % size;
  }
  int roleOf(int member, int channel) const { return turned(member, -channel); }
  int playerOf(int role, int channel) const { return turned(role, channel); }

  void addLanes(int member) {
    int firstEdge = 0;
    for (int channel = 0; channel < job_.nChannels; ++channel) {
      const auto& program = roles_.programs[static_cast<size_t>(roleOf(member, channel))];
      for (size_t lane = 0; lane < program->lanes->size(); ++lane) {
        job_.lanes[static_cast<size_t>(member)].push_back({program->lanes, static_cast<int32_t>(lane), firstEdge});
      }
      firstEdge += static_cast<int32_t>(program->edges.size());
    }
  }

  int32_t firstEdge(int member, int channel) const {
    const auto& lanes = job_.lanes[static_cast<size_t>(member)];
    return lanes[static_cast<size_t>(channel) * (lanes.size() / static_cast<size_t>(job_.nChannels))].firstEdge;
  }

  /// The rank that plays rank `role`'s part in a channel.
  Place placeOf(int role, int channel) const {
    Place place = roles_.places[static_cast<size_t>(role)];
    if (channel == 0) return place;
    if (roles_.classes) {
      const int size = network_.cluster().ranksPerNode;
      return {place.node, (place.local + channel) % size};
    }
    return roles_.places[static_cast<size_t>(playerOf(role, channel))];
  }

  Status addEdges(int member, int channel) {
    const int role = roleOf(member, channel);
    for (const RoleEdge& e : roles_.edges[static_cast<size_t>(role)]) {
      const int peer = playerOf(e.member, channel);
      const Place from = placeOf(roles_.rankOf[static_cast<size_t>(role)], channel);
      const Place to = placeOf(e.rank, channel);
      TUTTI_ASSIGN(const Route route, network_.route(from, to));
      LinkEdge edge;
      edge.to = peer;
      edge.toChannel = channel;
      edge.toEdge = firstEdge(peer, channel) + e.toEdge;
      edge.firstLink = static_cast<uint32_t>(job_.links.size());
      edge.mostGBps = route.mostGBps;
      edge.far = route.far;
      edge.switchesUs = e.switchesUs;
      for (const int link : route.links) addLink(link, from, member, peer);
      edge.nLinks = static_cast<uint32_t>(job_.links.size()) - edge.firstLink;
      job_.edges[static_cast<size_t>(member)].push_back(edge);
    }
    return {};
  }

  /// Of classes, links of the fabric are left out (they hold nobody up), and a node's are those of the node that stands
  /// for it.
  void addLink(int link, Place from, int member, int peer) {
    if (!roles_.classes) return job_.links.push_back(link);
    if (network_.inFabric(link)) return;
    const int perNode = network_.linksPerNode();
    const int node = roles_.nodeOf[static_cast<size_t>(link / perNode == from.node ? member : peer)];
    job_.links.push_back(node * perNode + link % perNode);
  }

  const Network& network_;
  const Roles& roles_;
  Job job_;
};

}  // namespace

Job beginJob(const Network& network, const Roles& roles, int nChannels) {
  const Cluster& c = network.cluster();
  Job job;
  job.nChannels = nChannels;
  job.nRanks = static_cast<int>(roles.places.size());
  job.near = c.near;
  job.far = c.far;
  job.inFlight = c.inFlight;
  job.prices = {.launchUs = c.launchUs,
                .reduceUsPerByte = 1 / (c.reduceGBps * 1e3),
                .combineUs = c.combineUs,
                .copyUsPerByte = 1 / (c.copyGBps * 1e3),
                .turnUs = c.turnUs,
                .passUs = c.passUs >= 0 ? c.passUs : c.turnUs};
  job.chunkBytes = roles.programs.front()->chunkBytes / nChannels;
  return job;
}

Result<Job> bindJob(const Network& network, const Roles& roles, int nChannels, bool staggered) {
  const bool ownCores = network.cluster().cores == 0;  // else a node's ranks are not alike
  if (ownCores && !staggered && roles.classes && nChannels > 1 && nChannels == network.cluster().ranksPerNode) {
    if (auto job = bindTurned(network, roles)) return std::move(*job);
  }
  TUTTI_ASSIGN(Job job, Binder(network, roles, nChannels).bind());
  job.staggered = staggered;
  return job;
}

int channelsFor(const Roles& roles) {
  if (roles.places.front().node == roles.places.back().node) return 1;
  // A node in the middle: those at the ends of a chain or tree may have less to do.
  const size_t node = (roles.firstOf.size() - 1) / 2;
  const int first = roles.firstOf[node], end = roles.firstOf[node + 1];
  int senders = 0;
  for (int member = first; member < end; ++member) {
    const int here = roles.places[static_cast<size_t>(roles.rankOf[static_cast<size_t>(member)])].node;
    const auto& edges = roles.edges[static_cast<size_t>(member)];
    const bool leaves = std::any_of(edges.begin(), edges.end(), [&](const RoleEdge& e) {
      return roles.places[static_cast<size_t>(e.rank)].node != here;
    });
    senders += leaves ? 1 : 0;
  }
  return senders == end - first ? 1 : end - first;
}

}  // namespace tutti::sim
