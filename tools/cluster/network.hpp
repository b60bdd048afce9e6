// A cluster as directed links with capacities, and the way of a message between two ranks as a list of them.
//
// Link ids: node n has the ids n * linksPerNode() and up, the fabric's follow those of all nodes.  A node's links are
// those of the topology graph that lie on a way between its GPUs (or NUMA nodes) and ports, each in two directions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/sim/roles.hpp"
#include "tools/cluster/fabric.hpp"
#include "tools/topology/search/host_model.hpp"

namespace tutti::sim {

struct Route {
  std::vector<int> links;
  double mostGBps = 0;    // of the narrowest link; within a device what a copy gets
  double switchesUs = 0;  // spent in switches of the fabric, and in slow adapters (nic-latency)
  bool far = false;       // leaves the node
};

/// What has failed before the collective begins.
struct Faults {
  /// (node, port): ranks that use the port go by the next best one.
  std::vector<std::pair<int, int>> ports;
  /// Links (both directions of those inside nodes) that have lost one of their cables; those of a single cable are gone
  /// and refused if a way leads over them.
  std::vector<int> links;
};

class Network {
 public:
  /// Errors: InvalidArgument if several nodes have no port to reach each other by, or no way leads from a rank to
  /// another one or to a port, or a fault names what is not there.
  static Result<Network> make(const Cluster& cluster, const Faults& faults = {});

  int nLinks() const { return linksPerNode() * cluster_.nodes + static_cast<int>(fabric_->links().size()); }
  int linksPerNode() const { return static_cast<int>(model_.capacity.size()); }
  bool inFabric(int link) const { return link >= linksPerNode() * cluster_.nodes; }
  double capacity(int link) const;
  std::vector<double> capacities() const;
  /// "node 3 GPU 1 -> NVSwitch", "leaf 2 up".
  std::string name(int link) const;
  int cables(int link) const;

  /// The way between two ranks.  Errors: InvalidArgument if a failed link has cut it.
  Result<Route> route(Place from, Place to) const;
  /// Switches and slow adapters between two nodes, as route() would find them, in microseconds.
  double switchesUs(Place from, Place to) const;

  /// The port by which a place reaches other nodes, -1 if there is none.
  int portOf(Place place) const;
  std::string portName(int port) const { return portNames_[static_cast<size_t>(port)]; }
  int nPorts() const { return static_cast<int>(portNames_.size()); }
  int deviceOf(int local) const { return local * nDevices_ / cluster_.ranksPerNode; }
  const Cluster& cluster() const { return cluster_; }
  bool faulty() const { return !faults_.ports.empty() || !faults_.links.empty(); }

 private:
  explicit Network(const Cluster& cluster);
  Status checkPlaces() const;
  Status appendFar(Place from, Place to, Route* route) const;
  double portUs(int port) const;
  int holderOf(int node, int port) const;  // device whose port it is, -1 if nobody's
  Status checkWhole(const std::vector<int>& links) const;
  std::string arcName(int arc) const;

  Cluster cluster_;
  topology::HostModel model_;
  topology::HostPart part_;
  int nDevices_ = 0;
  std::vector<std::string> portNames_;
  std::vector<double> portGBps_, portUs_;
  std::vector<std::vector<int>> portsOf_;  // [device], best first
  std::shared_ptr<const Fabric> fabric_;
  Faults faults_;
};

}  // namespace tutti::sim
