// What joins the nodes: for two ports, the links between them and the switches passed.
//
// Switches choose among parallel links so well that they can be seen as one link of their bandwidths' sum; what real
// switches lose by hashing flows onto them is not in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/cluster/cluster.hpp"

namespace tutti::sim {

/// One direction of a link, or of several in parallel that are used as one.
struct FabricLink {
  std::string name;
  double gbps = 0;
  int cables = 1;  // links that it stands for; one of them may be lost
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  const std::vector<FabricLink>& links() const { return links_; }
  /// Appends the links on the way between ports of two different nodes; returns how many switches or routers it passes.
  virtual int route(int fromNode, int fromPort, int toNode, int toPort, std::vector<int>* links) const = 0;
  /// Whether ports of these two numbers reach each other only by way of each other's node (rails).
  virtual bool joins(int fromPort, int toPort) const {
    (void)fromPort, (void)toPort;
    return true;
  }

 protected:
  int add(std::string name, double gbps, int cables = 1) {
    links_.push_back({std::move(name), gbps, cables});
    return static_cast<int>(links_.size()) - 1;
  }
  std::vector<FabricLink> links_;
};

/// nPorts ports of portGBps on every node.
std::unique_ptr<Fabric> makeFabric(const FabricSpec& spec, int nodes, int nPorts, double portGBps);

}  // namespace tutti::sim
