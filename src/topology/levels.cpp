#include "src/topology/levels.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "src/topology/complete.hpp"
#include "src/topology/paths.hpp"

namespace tutti::topology {
namespace {

/// What makes two ranks of one group: a node, with a process for Process; -1 - rail for rails.
using Key = std::tuple<int64_t, int64_t>;

class Placer {
 public:
  explicit Placer(const Graph& graph) : g_(graph), children_(childLists(graph)), paths_(graph) {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {  // indexes, for jobs of many ranks
      const Node& n = g_.nodes[i];
      const int node = static_cast<int>(i);
      if (n.kind == NodeKind::Host) hosts_.insert({n.hostHash, node});
      if (!n.busId.empty()) devices_.insert({{g_.hostOf(node), n.busId}, node});
      if (n.kind == NodeKind::Numa) firstNuma_.insert({g_.hostOf(node), node});
      if (n.kind == NodeKind::Net || n.kind == NodeKind::Nic) nets_[g_.hostOf(node)].push_back(node);
    }
  }

  Status place(const RankPlace& rank, size_t number, std::array<Key, kNumLevels>* keys) {
    const auto host = hosts_.find(rank.hostHash);
    if (host == hosts_.end())
      return invalidArgument(ErrorCode::RankNotInTopology, "rank ", number, ": its host is not in the topology");
    int spot = host->second;
    if (!rank.busId.empty()) {
      const auto device = devices_.find({spot, canonicalBusId(rank.busId)});
      if (device == devices_.end()) {
        return invalidArgument(ErrorCode::RankNotInTopology, "rank ", number, ": no device ", rank.busId,
                               " on its host in the topology");
      }
      spot = device->second;
    } else if (!rank.cpus.empty()) {
      spot = smallest(spot, rank.cpus);
    }
    const auto key = [&](Level level) -> Key& { return (*keys)[static_cast<size_t>(level)]; };
    key(Level::Process) = {host->second, rank.process};
    key(Level::L3) = {enclosing(spot, {NodeKind::L3, NodeKind::Numa, NodeKind::Package}), 0};
    key(Level::Numa) = {enclosing(spot, {NodeKind::Numa, NodeKind::Package}), 0};
    key(Level::Socket) = {enclosing(spot, {NodeKind::Package}), 0};
    if (g_.enclosing(spot, NodeKind::Package) < 0) key(Level::Socket) = key(Level::Numa);  // files without packages
    key(Level::Host) = {host->second, 0};
    key(Level::Rail) = rail(spot, host->second);
    key(Level::Cluster) = {0, 0};
    return {};
  }

 private:
  /// The smallest part of the machine that has all these CPUs.
  int smallest(int node, const CpuSet& cpus) const {
    for (const int child : children_[static_cast<size_t>(node)]) {
      if (g_.nodes[static_cast<size_t>(child)].cpus.contains(cpus)) return smallest(child, cpus);
    }
    return node;
  }

  /// The nearest node around `spot` of the first kind that there is; the host if none.
  int enclosing(int spot, std::initializer_list<NodeKind> kinds) const {
    for (const NodeKind kind : kinds) {
      if (const int node = g_.enclosing(spot, kind); node >= 0) return node;
    }
    return g_.hostOf(spot);
  }

  Key rail(int spot, int host) const {
    int device = spot;
    if (g_.nodes[static_cast<size_t>(spot)].kind != NodeKind::Gpu) {
      device = g_.enclosing(spot, NodeKind::Numa);
      if (const auto first = firstNuma_.find(host); device < 0 && first != firstNuma_.end()) device = first->second;
    }
    const std::vector<int> nets = paths_.netsOf(device);
    if (nets.empty()) return {host, 0};
    const int given = g_.nodes[static_cast<size_t>(nets[0])].net.rail;
    if (given >= 0) return {-1 - int64_t{given}, 0};
    const std::vector<int>& all = nets_.at(host);
    return {-1 - (std::find(all.begin(), all.end(), nets[0]) - all.begin()), 1};
  }

  const Graph& g_;
  std::vector<std::vector<int>> children_;
  Paths paths_;
  std::map<uint64_t, int> hosts_;
  std::map<std::pair<int, std::string>, int> devices_;  // by host and bus id
  std::map<int, int> firstNuma_;
  std::map<int, std::vector<int>> nets_;
};

}  // namespace

Result<LevelGroups> levelGroups(const Graph& graph, const std::vector<RankPlace>& ranks) {
  Placer placer(graph);
  LevelGroups groups;
  std::array<std::map<Key, int>, kNumLevels> numbers;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::array<Key, kNumLevels> keys;
    TUTTI_TRY(placer.place(ranks[rank], rank, &keys));
    for (size_t level = 0; level < kNumLevels; ++level) {
      const int next = static_cast<int>(numbers[level].size());
      groups[level].push_back(numbers[level].insert({keys[level], next}).first->second);
    }
  }
  return groups;
}

std::vector<std::vector<int>> innerLevels(const LevelGroups& groups) {
  const auto at = [&](Level level) -> const std::vector<int>& { return groups[static_cast<size_t>(level)]; };
  const auto count = [](const std::vector<int>& of) {
    return of.empty() ? 0 : *std::max_element(of.begin(), of.end()) + 1;
  };
  std::vector<std::vector<int>> inner;
  const std::vector<int>* above = &at(Level::Host);
  for (const Level level : {Level::Socket, Level::Numa, Level::L3}) {
    const std::vector<int>& own = at(level);
    const bool separates = count(own) > count(*above);  // nested: as many groups are the same groups
    if (!separates || count(own) == static_cast<int>(own.size())) continue;
    inner.push_back(own);
    above = &own;
  }
  return inner;
}

}  // namespace tutti::topology
