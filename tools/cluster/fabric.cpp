#include "tools/cluster/fabric.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::sim {
namespace {

class OneSwitch final : public Fabric {
 public:
  int route(int, int, int, int, std::vector<int>*) const override { return 1; }
};

/// Leaf switches of `leafNodes` nodes under a spine; with rails, a leaf for each rail.
class LeafSpine final : public Fabric {
 public:
  LeafSpine(const FabricSpec& spec, int nodes, int nPorts, double portGBps)
      : rails_(spec.kind == FabricKind::Rail), leafNodes_(spec.leafNodes), nPorts_(nPorts) {
    const int groups = (nodes + leafNodes_ - 1) / leafNodes_;
    const int leaves = rails_ ? groups * nPorts : groups;
    if (groups < 2) return;
    const int ports = leafNodes_ * (rails_ ? 1 : nPorts);
    const int cables = std::max(1, static_cast<int>(std::lround(ports / spec.oversubscription)));
    for (int leaf = 0; leaf < leaves; ++leaf) {
      const std::string name = rails_ ? cat("leaf ", leaf / nPorts, " rail ", leaf % nPorts) : cat("leaf ", leaf);
      const double gbps = ports * portGBps / spec.oversubscription;
      add(name + " up", gbps, cables);
      add(name + " down", gbps, cables);
    }
  }

  int route(int fromNode, int fromPort, int toNode, int toPort, std::vector<int>* links) const override {
    const int from = leafOf(fromNode, fromPort), to = leafOf(toNode, toPort);
    if (from == to) return 1;
    links->push_back(2 * from);
    links->push_back(2 * to + 1);
    return 3;
  }

  bool joins(int fromPort, int toPort) const override { return !rails_ || fromPort == toPort; }

 private:
  int leafOf(int node, int port) const {
    const int group = node / leafNodes_;
    return rails_ ? group * nPorts_ + port : group;
  }

  const bool rails_;
  const int leafNodes_;
  const int nPorts_;
};

/// Shortest ways, one dimension after the other; of two equally short ones upwards.
class Torus final : public Fabric {
 public:
  Torus(const FabricSpec& spec, int nodes) : dims_(spec.dims) {
    for (int node = 0; node < nodes; ++node) {
      for (size_t d = 0; d < dims_.size(); ++d) {
        add(cat("node ", node, " dimension ", d, " +"), spec.gbps);
        add(cat("node ", node, " dimension ", d, " -"), spec.gbps);
      }
    }
  }

  int route(int fromNode, int, int toNode, int, std::vector<int>* links) const override {
    int node = fromNode, stride = 1, hops = 0;
    for (size_t d = 0; d < dims_.size(); ++d) {
      const int n = dims_[d];
      const int goal = toNode / stride % n;
      int ahead = (goal - node / stride % n + n) % n;
      const bool up = 2 * ahead <= n;
      for (ahead = up ? ahead : n - ahead; ahead > 0; --ahead, ++hops) {
        links->push_back(2 * (node * static_cast<int>(dims_.size()) + static_cast<int>(d)) + (up ? 0 : 1));
        const int at = node / stride % n;
        node += ((at + (up ? 1 : n - 1)) % n - at) * stride;
      }
      stride *= n;
    }
    return hops;
  }

 private:
  const std::vector<int> dims_;
};

/// Groups in which every node reaches every other, one bundle of links between any two groups, shortest ways.
class Dragonfly final : public Fabric {
 public:
  Dragonfly(const FabricSpec& spec, int nodes) : group_(spec.groupNodes), groups_(nodes / spec.groupNodes) {
    for (int node = 0; node < nodes; ++node) {
      add(cat("node ", node, " into its group"), spec.gbps);
      add(cat("node ", node, " from its group"), spec.gbps);
    }
    const double share = group_ * spec.gbps / std::max(1, groups_ - 1);
    for (int a = 0; a < groups_; ++a) {
      for (int b = 0; b < groups_; ++b) {
        add(cat("group ", a, " to group ", b), spec.globalGBps > 0 ? spec.globalGBps : share, group_);
      }
    }
    firstGlobal_ = 2 * nodes;
  }

  int route(int fromNode, int, int toNode, int, std::vector<int>* links) const override {
    const int from = fromNode / group_, to = toNode / group_;
    links->push_back(2 * fromNode);
    if (from != to) links->push_back(firstGlobal_ + from * groups_ + to);
    links->push_back(2 * toNode + 1);
    return from == to ? 2 : 4;
  }

 private:
  const int group_;
  const int groups_;
  int firstGlobal_ = 0;
};

}  // namespace

std::unique_ptr<Fabric> makeFabric(const FabricSpec& spec, int nodes, int nPorts, double portGBps) {
  switch (spec.kind) {
    case FabricKind::Switch: break;
    case FabricKind::FatTree:
    case FabricKind::Rail: return std::make_unique<LeafSpine>(spec, nodes, nPorts, portGBps);
    case FabricKind::Torus: return std::make_unique<Torus>(spec, nodes);
    case FabricKind::Dragonfly: return std::make_unique<Dragonfly>(spec, nodes);
  }
  return std::make_unique<OneSwitch>();
}

}  // namespace tutti::sim
